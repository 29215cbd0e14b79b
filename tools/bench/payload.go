package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
)

const (
	payloadSize    = 1 << 20
	payloadsAtOnce = 64
)

// payloadText is the result of the step. It is made when it is needed: this package is part of every command.
var payloadText = sync.OnceValue(func() string { return strings.Repeat("0123456789abcdef", payloadSize/16) })

// goPayload is a workflow whose only step has a large result, which is also the run's.
var goPayload = pawl.Define("bench-payload", func(ctx pawl.Context, _ int) (string, error) {
	return pawl.Step(ctx, "step", func(context.Context) (string, error) { return payloadText(), nil })
})

// payloads measures how many bytes of results runs deliver in a second, each counted once.
func payloads(ctx context.Context, s *session) (Row, error) {
	eng, err := s.openGo(ctx)
	if err != nil {
		return Row{}, err
	}
	var win window
	var rates, costs []float64
	for range pick(s, 3, 1) {
		win, err = started(ctx, payloadsAtOnce, pick(s, 4, 1)*payloadsAtOnce, func(ctx context.Context) error {
			run, err := goPayload.Start(ctx, eng, "", 1)
			if err != nil {
				return err
			}
			out, err := run.Result(ctx)
			if err == nil && len(out) != payloadSize {
				err = fmt.Errorf("the result has %d bytes", len(out))
			}
			return err
		})
		if err != nil {
			return Row{}, errors.Join(err, eng.Close())
		}
		rates, costs = append(rates, win.rate()*payloadSize/1e6), append(costs, win.cost())
	}
	if err := eng.Close(); err != nil {
		return Row{}, err
	}
	row := win.row("MB/s", 1)
	row.Value = median(rates)
	row.reached = row.Value >= 200
	row.detail = fmt.Sprintf("cpu %.3g ms a run%s", median(costs), win.usage)
	row.DB, err = folderBytes(s.dir)
	return row, err
}
