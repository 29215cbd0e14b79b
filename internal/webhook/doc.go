// Package webhook sends the events of runs to the URLs of others: the registrations, the outbox, and its delivery.
//
// An event becomes a delivery, which is a document in the engine's database, when the feed of committed entries brings
// it. The id of a delivery is made from its event, so an event that the feed brings twice is one delivery. Only then
// the position of the feed moves on. So nothing is lost with a crash. A delivery ends when its receiver has answered
// with 2xx, or when its policy stops it. A crash between the answer and its record sends the message again, with the
// same id.
//
//	feed.go      entries of the engine become deliveries
//	outbox.go    what is stored of webhooks and deliveries, and under which keys
//	sender.go    the loop that sends what is due, in order for each run
//	attempt.go   one request, and what follows from its answer
//	sign.go      secrets and signatures, as Standard Webhooks has them
//	guard.go     how messages are sent
package webhook
