package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl/policy"
)

// Webhooks is the interface of callers to webhooks. The server implements it, and so does the client of a server. All
// methods are safe for concurrent use and return an *[Error]. Those that name a webhook may return CodeNotFound.
type Webhooks interface {
	// AddWebhook registers a webhook. Its secret is in the answer, and never again. From now on the events that it asks
	// for are sent to its URL. Errors: CodeInvalid, CodeConflict (there is one with this name).
	AddWebhook(ctx context.Context, r WebhookRequest) (Webhook, error)
	// Webhooks lists all webhooks, by name.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook returns one webhook.
	Webhook(ctx context.Context, name string) (Webhook, error)
	// ChangeWebhook changes what the request has, for the events from now on. Errors: CodeInvalid.
	ChangeWebhook(ctx context.Context, name string, c WebhookChange) (Webhook, error)
	// RemoveWebhook removes a webhook with all its deliveries.
	RemoveWebhook(ctx context.Context, name string) error
	// RotateSecret gives a webhook a new secret, which is in the answer and never again. Until the overlap is over,
	// messages are signed with the old secret too. Errors: CodeInvalid.
	RotateSecret(ctx context.Context, name string, r Rotation) (Webhook, error)
	// Deliveries lists deliveries of a webhook, the newest event first. Errors: CodeInvalid.
	Deliveries(ctx context.Context, name string, q DeliveryQuery) (DeliveryPage, error)
	// Delivery returns one delivery with its attempts and its payload.
	Delivery(ctx context.Context, name, id string) (Delivery, error)
	// Replay sends deliveries that have ended again, with the same ids. Errors: CodeInvalid, CodeConflict (it has not
	// ended).
	Replay(ctx context.Context, name string, r ReplayRequest) (Replayed, error)
	// TestWebhook sends one message to a webhook, even to a disabled one, and returns the result. It is not tried
	// again. Errors: CodeReadOnly (this process sends nothing).
	TestWebhook(ctx context.Context, name string) (Delivery, error)
}

// WebhookRequest registers a webhook.
type WebhookRequest struct {
	Name      string            `json:"name"` // unique
	URL       string            `json:"url"`
	Events    []string          `json:"events,omitempty"`    // types such as run.failed, run.* or *; default: see docs
	Workflows []string          `json:"workflows,omitempty"` // names of workflows; default: all
	Labels    map[string]string `json:"labels,omitempty"`    // labels that a run must have, all of them
	Secret    string            `json:"secret,omitempty"`    // whsec_ and base64; default: a random one
	Policy    *policy.Policy    `json:"policy,omitempty"`    // each delivery's retry, startToClose, scheduleToClose
}

// WebhookChange changes a webhook. Absent fields stay as they are.
type WebhookChange struct {
	URL       string            `json:"url,omitempty"`
	Events    []string          `json:"events,omitzero"`
	Workflows []string          `json:"workflows,omitzero"`
	Labels    map[string]string `json:"labels,omitzero"`
	Policy    *policy.Policy    `json:"policy,omitempty"`
	Disabled  *bool             `json:"disabled,omitempty"`
}

// Rotation gives a webhook a new secret.
type Rotation struct {
	Secret  string    `json:"secret,omitempty"`  // default: a random one
	Overlap *Duration `json:"overlap,omitempty"` // default: 24h
}

// Webhook is a registration.
type Webhook struct {
	Name      string            `json:"name"`
	URL       string            `json:"url"`
	Events    []string          `json:"events"`
	Workflows []string          `json:"workflows,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Policy    policy.Policy     `json:"policy"`
	CreatedAt Time              `json:"createdAt"`
	// DisabledAt is since when nothing is sent: events are not kept, and deliveries that wait go on waiting. Zero if it
	// is enabled.
	DisabledAt Time   `json:"disabledAt,omitzero"`
	Disabled   string `json:"disabled,omitempty"` // why
	Pending    int    `json:"pending"`            // deliveries that have not ended
	// MissedAt is when events were last lost: they were not read for so long that they were dropped, or too many
	// deliveries were pending. Missed counts the latter.
	MissedAt Time `json:"missedAt,omitzero"`
	Missed   int  `json:"missed,omitempty"`
	// Overlap is until when messages are signed with an older secret too.
	Overlap Time   `json:"overlap,omitzero"`
	Secret  string `json:"secret,omitempty"` // only in the answer to its creation or rotation
}

// WebhookCounts is what has happened to the deliveries of a webhook since the process began.
type WebhookCounts struct {
	Webhook                            string
	Pending                            int // the number at present
	Delivered, Failed, Missed, Retried int
}

// DeliveryState is whether a delivery has arrived.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryFailed    DeliveryState = "failed"
)

// Delivery is one message to one webhook.
type Delivery struct {
	ID       string        `json:"id"` // the header webhook-id; the same in every attempt
	Webhook  string        `json:"webhook"`
	Type     string        `json:"type"`
	Run      string        `json:"run,omitempty"`
	Workflow string        `json:"workflow,omitempty"`
	State    DeliveryState `json:"state"`
	At       Time          `json:"at"`               // the instant of the event
	NextAt   Time          `json:"nextAt,omitzero"`  // the instant of the next attempt
	EndedAt  Time          `json:"endedAt,omitzero"` // when it was delivered or given up
	Why      string        `json:"why"`              // its state, in a sentence
	Tried    int           `json:"tried"`            // attempts since it was sent or replayed
	Since    Time          `json:"since"`            // when it was made or last replayed; its limits begin there
	// Attempts are the last ones, at most a hundred. They and the payload are not in lists.
	Attempts []DeliveryAttempt `json:"attempts,omitempty"`
	Payload  json.RawMessage   `json:"payload,omitempty"`
}

// DeliveryAttempt is one request.
type DeliveryAttempt struct {
	At         Time            `json:"at"`
	DurationMs int64           `json:"durationMs"`
	Status     int             `json:"status,omitempty"`   // the status of the answer; 0 if there was none
	Response   string          `json:"response,omitempty"` // the beginning of the answer's body
	Failure    *policy.Failure `json:"failure,omitempty"`
	NextAt     Time            `json:"nextAt,omitzero"`  // when it was tried again
	Reason     string          `json:"reason,omitempty"` // why it was not
}

// DeliveryQuery selects deliveries.
type DeliveryQuery struct {
	State  DeliveryState `json:"state,omitempty"` // empty: all
	Run    string        `json:"run,omitempty"`   // a run id
	Since  Time          `json:"since,omitzero"`  // the earliest instant of an event
	Limit  int           `json:"limit,omitempty"` // default 50
	Cursor string        `json:"cursor,omitempty"`
}

// DeliveryPage is one page of deliveries.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"` // the cursor of the next page; empty: there is none
}

// ReplayRequest specifies what is sent again: one delivery, or all that failed.
type ReplayRequest struct {
	Delivery string `json:"delivery,omitempty"`
	Failed   bool   `json:"failed,omitempty"`
	Since    Time   `json:"since,omitzero"` // the earliest instant of an event, with Failed; default: all
}

// Replayed answers a replay.
type Replayed struct {
	Count int `json:"count"` // the number of deliveries that are sent once more
}
