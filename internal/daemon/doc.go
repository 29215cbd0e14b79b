// Package daemon is a whole server as a value: a node that carries runs on, the service over it, and its connections to
// others: listeners, webhooks, workers in other processes, and the nodes of a cluster. The command makes one from its
// flags; a Go program makes one over its own engine.
//
//	d, err := daemon.New(cfg)   // nothing runs yet
//	err = d.Open(ctx)           // runs go on, others are served
//	d.Listen(l, nil)            // HTTP; another protocol is another listener
//	<-d.Ended()                 // it has ended by itself
//	err = d.Shutdown(ctx)       // requests are answered, then everything closes
//
// What a program links is its own choice: the journals, the page, metrics and traces are given as values.
package daemon
