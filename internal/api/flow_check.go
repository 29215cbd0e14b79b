package api

// CheckedFlow is the result of checking the text of a flow. It was not started.
type CheckedFlow struct {
	Valid    bool          `json:"valid" doc:"Set if the flow can be started."`
	Name     string        `json:"name,omitempty"`
	Steps    int           `json:"steps,omitempty" doc:"Number of its steps."`
	Findings []FlowFinding `json:"findings" doc:"Findings that are wrong or deserve a look, each with its place."`
}

// FlowFinding is one thing that is wrong with a flow, or that deserves a look.
type FlowFinding struct {
	File     string `json:"file,omitempty" doc:"File of the flow's templates; missing: the text itself."`
	Line     int    `json:"line,omitempty" doc:"Line, from 1; missing if no place is known."`
	Col      int    `json:"col,omitempty" doc:"The character in the line, from 1."`
	Severity string `json:"severity" doc:"error, warning or info. With an error it cannot be started."`
	Code     string `json:"code,omitempty"`
	Step     string `json:"step,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty" doc:"Advice on what to do about it."`
}
