package sql

// Statements of `pgdispatch doctor`. Each lists problems, or what is needed to detect them.
var (
	DoctorDefinitions = read("doctor_definitions")
	DoctorHorizon     = read("doctor_horizon")
	DoctorListen      = read("doctor_listen")
	DoctorOverrides   = read("doctor_overrides")
	DoctorReplicas    = read("doctor_replicas")
	DoctorRole        = read("doctor_role")
	DoctorServer      = read("doctor_server")
	DoctorSession     = read("doctor_session")
	DoctorTables      = read("doctor_tables")
	DoctorTriggers    = read("doctor_triggers")
)
