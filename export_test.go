package pawl

// ScheduleWorkflow is the workflow that schedules are runs of, to replay it.
func ScheduleWorkflow() Definition { return scheduleWorkflow(nil) }
