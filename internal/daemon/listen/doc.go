// Package listen makes the listeners of a server: with a certificate that is read again when its files change, with as
// many connections as the process has room for, and without requests that a proxy could take for others.
package listen
