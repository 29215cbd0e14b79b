package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pawlcluster"
)

// shop is what the workflow works with. A line of what it writes tells that something is begun.
type shop struct {
	out  *os.File
	pace time.Duration
}

// write makes the shop write into a file, which all processes share.
func (s *shop) write(file string) (err error) {
	if file != "" {
		s.out, err = os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	}
	return err
}

// do does something for an order.
func (s *shop) do(ctx context.Context, order int, what string) error {
	if _, err := fmt.Fprintf(s.out, "order %d: %s\n", order, what); err != nil {
		return err
	}
	select {
	case <-time.After(s.pace):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// address tells an order where it goes.
const address pawl.Update[string, string] = "address"

// carry is done by whichever node has the order.
var carry = pawl.HandlerRef[int, string]("carry")

var errTooHeavy = errors.New("no courier carries it")

// courier carries parcels, but for each fifth one.
func (s *shop) courier() pawl.AnyHandler {
	return pawl.Handle(carry.Name(), func(ctx context.Context, order int) (string, error) {
		if order%5 == 4 {
			return "", pawl.NonRetryable(errTooHeavy)
		}
		return "carried", s.do(ctx, order, "carry")
	})
}

func (s *shop) workflow() *pawl.Workflow[int, string] {
	return pawl.Define("order", func(ctx pawl.Context, order int) (string, error) {
		var undo pawl.Compensations
		done, err := s.fulfil(ctx, order, &undo)
		if err != nil {
			return "", errors.Join(err, undo.Run(ctx))
		}
		return done, nil
	}, pawl.RunTimeout("1h"))
}

// fulfil reserves the goods, waits for the address, packs two parcels and has them carried. What is done stays done,
// whoever stops. It is undone where nobody carries it.
func (s *shop) fulfil(ctx pawl.Context, order int, undo *pawl.Compensations) (string, error) {
	step := func(ctx pawl.Context, what string) error {
		return pawl.Do(ctx, what, func(ctx context.Context) error { return s.do(ctx, order, what) })
	}
	undo.Add(ctx, "release", func(ctx context.Context) error { return s.do(ctx, order, "release") })
	if err := step(ctx, "reserve"); err != nil {
		return "", err
	}
	to := ""
	err := address.Handle(ctx, nil, func(ctx pawl.Context, where string) (string, error) {
		to = where
		return fmt.Sprintf("order %d goes to %s", order, where), step(ctx, "label")
	})
	if err != nil {
		return "", err
	}
	packs := []string{"pack 1", "pack 2"}
	_, err = pawl.Map(ctx, "parcels", 2, packs, func(ctx pawl.Context, pack string) (int, error) {
		return 0, step(ctx, pack)
	})
	if err != nil {
		return "", err
	}
	if err := pawl.Sleep(ctx, "courier", s.pace); err != nil {
		return "", err
	}
	how, err := carry.Call(ctx, "carry", order, pawl.Queue("couriers"))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("order %d is %s to %s", order, how, to), nil
}

// take takes orders, and waits for all of them.
func (s *shop) take(ctx context.Context, node *pawl.Engine, w *pawl.Workflow[int, string], from, orders int) error {
	errs := make([]error, orders)
	var all sync.WaitGroup
	for i := range orders {
		all.Go(func() { errs[i] = s.place(ctx, node, w, from+i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// place places an order, says where it goes, and waits for it. All that it asks for has an id: so it may ask again.
func (s *shop) place(ctx context.Context, node *pawl.Engine, w *pawl.Workflow[int, string], order int) error {
	var r pawl.Run[string]
	id := fmt.Sprint("order-", order)
	err := again(ctx, func() (err error) {
		r, err = w.Start(ctx, node, id, order, pawl.IdempotencyKey(id))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "order %d: taken\n", order)
	err = again(ctx, func() error {
		answer, err := address.Send(ctx, node, r.ID, fmt.Sprint("street ", order), pawl.SendID("address"))
		if err == nil {
			fmt.Fprintf(s.out, "order %d: answer %s\n", order, answer)
		}
		return err
	})
	if err != nil && !errors.Is(err, pawl.ErrRunClosed) { // an earlier life of this process has had the answer
		return err
	}
	err = again(ctx, func() error {
		done, err := r.Result(ctx)
		if err == nil {
			fmt.Println(done)
		}
		return err
	})
	var ended *pawl.RunError
	if errors.As(err, &ended) {
		fmt.Println("order", order, "was taken back:", ended)
		return nil
	}
	return err
}

// again asks until there is an answer. A node that dies at that moment leaves open whether something was saved, and
// what it had is with nobody for a moment.
func again(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if !errors.Is(err, pawlcluster.ErrUncertain) && !errors.Is(err, pawl.ErrHeld) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}
