package worker

// Leftover is a process that outlived the worker which started it.
type Leftover struct {
	PID     int
	Run     string
	Step    string
	Attempt int
	Command string // the beginning of its command line
}
