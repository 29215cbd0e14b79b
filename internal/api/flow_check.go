package api

// CheckedFlow is the result of checking the text of a flow. It was not started.
type CheckedFlow struct {
	Valid    bool          `json:"valid" doc:"It can be started."`
	Name     string        `json:"name,omitempty"`
	Steps    int           `json:"steps,omitempty" doc:"How many it has."`
	Findings []FlowFinding `json:"findings" doc:"What is wrong, or deserves a look, at its place."`
}

// FlowFinding is one thing that is wrong with a flow, or that deserves a look.
type FlowFinding struct {
	File     string `json:"file,omitempty" doc:"Of the flow's templates; without it, the text itself."`
	Line     int    `json:"line,omitempty" doc:"From 1; without it, no place is known."`
	Col      int    `json:"col,omitempty" doc:"The character in the line, from 1."`
	Severity string `json:"severity" doc:"error, warning or info. With an error it cannot be started."`
	Code     string `json:"code,omitempty"`
	Step     string `json:"step,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty" doc:"What to do about it."`
}
