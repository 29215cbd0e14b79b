package httpapi

// Caller is the answer to who a caller is.
type Caller struct {
	Guarded    bool     `json:"guarded" doc:"The server asks for tokens."`
	Name       string   `json:"name,omitempty" doc:"The name of the token."`
	Role       string   `json:"role" doc:"Role of the caller: read, operate or admin."`
	Brings     bool     `json:"brings" doc:"Set if the caller may start flows that it brings along."`
	Namespace  string   `json:"namespace" doc:"The one that this request is for."`
	Namespaces []string `json:"namespaces" doc:"Namespaces that the caller may name in Pawl-Namespace."`
}
