package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/core"
)

// Relay delivers committed messages to the client until ctx is done, and returns ctx's error. Messages for one
// workflow id are delivered in order, those for different ids at the same time. Several relays may run at once.
//
// A message that can never be delivered stays in the table with the reason, which is also logged: the workflow id is
// taken by another run, or the run has ended or takes no more events. A message that cannot be delivered now is tried
// again at the next look; until then it holds back the messages for the same workflow id, and no others.
//
// Relay looks when it is told of a commit, and otherwise every [Config.Every]. To be told by PostgreSQL it keeps one
// connection of the database's pool, unless that is the last one.
func (o *Outbox) Relay(ctx context.Context, c pawl.Client) error {
	if err := o.delivers(ctx, c); err != nil {
		return err
	}
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { o.listen(ctx) })
	var warned time.Time
	for {
		var err error
		if o.turn == nil || o.turn() {
			err = o.RelayOnce(ctx, c)
		}
		if now := time.Now(); err != nil && ctx.Err() == nil && now.Sub(warned) >= o.every {
			warned = now
			o.log.Warn("some messages of the outbox cannot be delivered now and are tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-o.committed:
		}
	}
}

// delivers returns an error for what can deliver nothing: messages must not be refused for that.
func (o *Outbox) delivers(ctx context.Context, c pawl.Client) error {
	if err := o.ready(ctx); err != nil {
		return err
	}
	if e, ok := c.(*pawl.Engine); c == nil || ok && (e == nil || e.Client == nil) {
		return refuse(pawl.ErrInvalid, "the client is nil, or nobody has made it: give it the engine of pawl.Open")
	}
	return nil
}

const (
	// pageSize is how many rows are read, delivered and deleted at once.
	pageSize = 100
	// deliverWithin limits one delivery, so that a client that does not answer for one run does not delay others
	// forever. The message is tried again at the next look.
	deliverWithin = 10 * time.Second
)

// RelayOnce delivers the messages that are committed now. Its error is the reason why messages stay to be tried again.
func (o *Outbox) RelayOnce(ctx context.Context, c pawl.Client) error {
	if err := o.delivers(ctx, c); err != nil {
		return err
	}
	p := &pass{outbox: o, client: c, blocked: map[string]bool{}}
	for after := int64(0); ; {
		rows, err := o.page(ctx, after)
		if err != nil {
			return wrap(err)
		}
		if err := p.relay(ctx, rows); err != nil {
			return wrap(err)
		}
		if len(rows) < pageSize || p.over {
			return wrap(p.err)
		}
		after = rows[len(rows)-1].seq
	}
}

// row is a row of the table.
type row struct {
	seq  int64
	id   string
	text string

	message message // the content of the text
}

// page reads the rows after a position.
func (o *Outbox) page(ctx context.Context, after int64) (page []row, err error) {
	query := o.sql("SELECT seq, id, message FROM {table} WHERE failure IS NULL AND seq > ? ORDER BY seq LIMIT ?")
	rows, err := o.db.QueryContext(ctx, query, after, pageSize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.seq, &r.id, &r.text); err != nil {
			return nil, err
		}
		page = append(page, r)
	}
	return page, rows.Err()
}

// recipient returns the id of the run that the message is for. Messages for one recipient keep their order.
func (r *row) recipient() string {
	switch {
	case r.message.Start == nil:
		return r.message.Run
	case r.message.Start.ID != "":
		return r.message.Start.ID
	default:
		return "row " + r.id // a run without a workflow id: no other message can name it
	}
}

// deliver hands the message to the client. Delivering it again changes nothing, because the client knows its id.
func (r *row) deliver(ctx context.Context, c pawl.Client) error {
	ctx, cancel := context.WithTimeout(ctx, deliverWithin)
	defer cancel()
	m := r.message
	if m.Start == nil {
		return c.SendEvent(ctx, m.Run, client.SendRequest{Name: m.Event, ID: core.OutboxKey(r.id, ""), Payload: m.Body})
	}
	req := client.StartRequest(*m.Start)
	if req.IdempotencyKey == "" {
		req.IdempotencyKey = core.OutboxKey(r.id, req.ID)
	}
	_, err := c.StartRun(ctx, req)
	return err
}

// permanent reports whether a message that failed with err can never be delivered.
func permanent(err error) bool {
	for _, reason := range []error{
		pawl.ErrConflict, pawl.ErrNotFound, pawl.ErrRunClosed, pawl.ErrTooLarge, pawl.ErrFull, pawl.ErrInvalid,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// soon reports whether a workflow that is not registered may still be: with the other nodes, while a new version of the
// program is rolled out.
func (o *Outbox) soon(r row, err error) bool {
	return o.turn != nil && r.message.Start != nil && errors.Is(err, pawl.ErrNotFound)
}

// pass is one walk over the table.
type pass struct {
	outbox *Outbox
	client pawl.Client

	mu        sync.Mutex
	blocked   map[string]bool // recipients of messages that could not be delivered now: their later messages wait
	err       error           // why messages stay
	over      bool            // the rest of the table waits for the next pass
	delivered []any           // seq of each row of the page that was delivered
	refused   map[int64]error // why a row of the page can never be delivered
}

// relay delivers a page of rows and records in the table what happened to each.
func (p *pass) relay(ctx context.Context, page []row) error {
	p.delivered, p.refused = nil, map[int64]error{}
	var wg sync.WaitGroup
	for _, rows := range p.byRecipient(page) {
		wg.Go(func() { p.deliver(ctx, rows) })
	}
	wg.Wait()
	return p.record(ctx)
}

// byRecipient decodes the rows and groups those that may be delivered now.
func (p *pass) byRecipient(page []row) map[string][]row {
	groups := map[string][]row{}
	for _, r := range page {
		var err error
		r.message, err = decode(r.text)
		switch to := r.recipient(); {
		case errors.Is(err, errNewer):
			p.blocked[to] = true
			if p.err == nil {
				p.err = fmt.Errorf("row %d: %w", r.seq, err)
			}
		case err != nil:
			p.refused[r.seq] = err
		case !p.blocked[to]:
			groups[to] = append(groups[to], r)
		}
	}
	return groups
}

// deliver delivers the rows for one recipient, until one cannot be delivered now.
func (p *pass) deliver(ctx context.Context, rows []row) {
	for _, r := range rows {
		err := r.deliver(ctx, p.client)
		if !p.note(r, err) {
			return
		}
	}
}

// note keeps what happened to a row, and reports whether the next row for the same recipient may be delivered.
func (p *pass) note(r row, err error) (next bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.delivered = append(p.delivered, r.seq)
	case permanent(err) && !p.outbox.soon(r, err):
		p.refused[r.seq] = err
	default:
		p.blocked[r.recipient()] = true
		p.over = p.over || errors.Is(err, pawl.ErrClosed)
		if p.err == nil {
			p.err = err
		}
		return false
	}
	return true
}

// record deletes the delivered rows of a page and marks the refused ones.
func (p *pass) record(ctx context.Context) error {
	o := p.outbox
	if n := len(p.delivered); n > 0 {
		marks := strings.TrimSuffix(strings.Repeat("?,", n), ",")
		query := o.sql("DELETE FROM {table} WHERE seq IN (" + marks + ")")
		if _, err := o.db.ExecContext(ctx, query, p.delivered...); err != nil {
			return err
		}
	}
	for seq, reason := range p.refused {
		o.log.Error("a message of the outbox can never be delivered: it stays in the table",
			"id", "outbox-undeliverable", "seq", seq,
			"error", reason)
		_, err := o.db.ExecContext(ctx, o.sql("UPDATE {table} SET failure = ? WHERE seq = ?"), text(reason), seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// text returns an error's text as every database stores it: PostgreSQL refuses invalid UTF-8 and the character zero.
func text(err error) string {
	return strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\\x00")
}
