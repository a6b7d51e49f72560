alter system set synchronous_standby_names = ''
