-- reads
listen pgdispatch_doctor
