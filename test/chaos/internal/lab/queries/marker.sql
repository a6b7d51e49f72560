insert into chaos.markers default values
