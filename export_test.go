package pawl

// Sessions counts the calls of bodies that the engine knows of.
func (e *Engine) Sessions() int { return e.host.bodies.Sessions() }

// ScheduleWorkflow is the workflow that schedules are runs of, to replay it.
func ScheduleWorkflow() Definition { return scheduleWorkflow(nil) }

// PlainText reads a JSON string without escapes.
func PlainText(b []byte) (string, bool) { return plainText(b) }

// WriteText writes a text in which nothing has to be escaped as JSON.
func WriteText(text string) ([]byte, bool) { return writeText(text) }
