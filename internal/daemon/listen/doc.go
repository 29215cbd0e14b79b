// Package listen makes the listeners of a server: with a certificate that is read again when its files change, and with
// as many connections as the process has room for.
package listen
