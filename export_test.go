package pawl

// ScheduleWorkflow returns the workflow that schedules are runs of, to replay it.
func ScheduleWorkflow() Definition { return scheduleWorkflow(nil) }
