package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// api simulates another company's service. It takes a number of requests in a second, and answers others with 429.
// After ten requests it is down for two seconds.
type api struct {
	log  io.Writer // a line for each answer: item, status
	rate int

	mu       sync.Mutex
	answered int
	up       time.Time // end of the outage; zero if there was none yet
	taken    []time.Time
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if status := a.answer(n, time.Now()); status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	fmt.Fprintf(w, "%d.99", n+1)
}

// answer decides about a request for an item that comes now.
func (a *api) answer(item int, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := a.take(now)
	if _, err := fmt.Fprintln(a.log, item, status); err != nil {
		return http.StatusInternalServerError
	}
	return status
}

func (a *api) take(now time.Time) int {
	if a.answered == 10 && a.up.IsZero() {
		a.up = now.Add(2 * time.Second)
	}
	if now.Before(a.up) {
		return http.StatusServiceUnavailable
	}
	a.taken = append(a.taken, now)
	for now.Sub(a.taken[0]) >= time.Second {
		a.taken = a.taken[1:]
	}
	if len(a.taken) > a.rate {
		return http.StatusTooManyRequests
	}
	a.answered++
	return http.StatusOK
}
