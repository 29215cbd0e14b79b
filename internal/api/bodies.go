package api

import "context"

// Bodies allows processes to make the decisions of runs whose workflows are functions in them. The process that has the
// engine implements it, and so does a client of a server. What goes to and fro is JSON within the fields of bytes:
// [BodyWorkflows], [BodyNewsList] and [BodyDecisionList]. All methods are safe for concurrent use.
type Bodies interface {
	// JoinBodies makes a process known with its workflows. Once more with the same holder it changes nothing. Errors:
	// CodeInvalid, CodeReadOnly, CodeClosed (the server stops: ask again later).
	JoinBodies(ctx context.Context, r BodiesJoin) error
	// TakeNews waits for news of the runs that the process decides, and for attempts of their local steps. Errors:
	// CodeStale (the process is not known, or no longer: join again), CodeClosed, CodeCancelled.
	TakeNews(ctx context.Context, r NewsRequest) (News, error)
	// GiveDecisions takes what the process has decided, and answers when that is durable. Given again with the same
	// number it is answered again, and done once. Errors: as TakeNews.
	GiveDecisions(ctx context.Context, r Decisions) (DecisionAnswers, error)
	// BodiesNodes returns the nodes of a cluster, each of which a process joins. It waits while the caller knows these
	// ones. Errors: CodeReadOnly, CodeClosed, CodeCancelled.
	BodiesNodes(ctx context.Context, r BodiesNodesRequest) (BodiesNodes, error)
}

// BodiesNodesRequest asks for the nodes of a cluster.
type BodiesNodesRequest struct {
	Known []string `json:"known,omitempty" doc:"The nodes that you know."`
	Wait  Duration `json:"wait,omitzero" doc:"Time to wait for other nodes, such as 30s. Default: none; at most 1m."`
}

// BodiesNodes are the nodes of a cluster.
type BodiesNodes struct {
	Nodes []string `json:"nodes" doc:"Their names, to be said as node. None: the server is in no cluster."`
}

// BodiesJoin makes a process known.
type BodiesJoin struct {
	Node      string   `json:"node,omitempty" doc:"The node of the cluster to join. Default: the one that is asked."`
	Holder    string   `json:"holder" minLength:"16" maxLength:"100" doc:"A secret name for this join, made up by you."`
	Name      string   `json:"name,omitempty" maxLength:"200" doc:"Your name, for people."`
	Slots     int      `json:"slots" minimum:"1" doc:"Number of attempts of local steps that you run at once."`
	Workflows []string `json:"workflows" doc:"The names of your workflows."`
	Options   []byte   `json:"options" doc:"Options for the engine: JSON, a BodyWorkflows of package api."`
}

// NewsRequest asks for news.
type NewsRequest struct {
	Node   string   `json:"node,omitempty" doc:"The node that you joined."`
	Holder string   `json:"holder" doc:"The name of your join."`
	Seen   uint64   `json:"seen" doc:"The number of the newest news that you have."`
	Wait   Duration `json:"wait,omitzero" doc:"Time to wait for news, such as 4s. Default: none; at most 1m."`
}

// News is what has happened since the last call.
type News struct {
	Number uint64 `json:"number" doc:"Say it as seen in your next request."`
	News   []byte `json:"news,omitempty" doc:"JSON, a BodyNewsList of package api. Absent: nothing has happened."`
}

// Decisions are a process's decisions, and the results of attempts.
type Decisions struct {
	Node      string `json:"node,omitempty" doc:"The node that you joined."`
	Holder    string `json:"holder" doc:"The name of your join."`
	Number    uint64 `json:"number" minimum:"1" doc:"One more than that of your last decisions."`
	Decisions []byte `json:"decisions" doc:"JSON, a BodyDecisionList of package api."`
}

// DecisionAnswers has an answer for each decision.
type DecisionAnswers struct {
	Answers []DecisionAnswer `json:"answers"`
}

// DecisionAnswer is the outcome of a decision.
type DecisionAnswer struct {
	Error *Error `json:"error,omitempty" doc:"Reason why it was not taken."`
}
