//go:build !unix

package worker

func play(string) {}
