package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// floorFile is the file with which the floor is measured: how long the disk takes to make 4 KiB at the end of a file
// durable.
type floorFile struct {
	file *os.File
	took []time.Duration
}

func openFloor(dir string) (*floorFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	f := &floorFile{file: file}
	const cold = 10 // the file's first syncs write its folder as well
	err = f.sample(cold)
	f.took = nil
	return f, err
}

// sample measures the floor n times.
func (f *floorFile) sample(n int) error {
	block := make([]byte, 4096)
	for range n {
		from := time.Now()
		if _, err := f.file.Write(block); err != nil {
			return err
		}
		if err := datasync(f.file); err != nil {
			return err
		}
		f.took = append(f.took, time.Since(from))
	}
	return nil
}

// paced measures the floor n times with a pause before each, as commits of timers have: a disk that is asked now and
// then answers slower than one that is asked all the time. The slowest one comes last.
func (f *floorFile) paced(ctx context.Context, n int, pause time.Duration) ([]time.Duration, error) {
	before := f.took
	f.took = nil
	for range n {
		rest(ctx, pause)
		if err := f.sample(1); err != nil {
			return nil, err
		}
	}
	took := f.took
	f.took = before
	slices.Sort(took)
	return took, ctx.Err()
}

func (f *floorFile) close() error {
	return errors.Join(f.file.Close(), os.Remove(f.file.Name()))
}

// sampleFloor measures the floor a few times between runs, so that both meet the same disk.
func (s *session) sampleFloor() error { return s.floor.sample(8) }

// summary describes many durations, in milliseconds.
type summary struct {
	count    int
	p50, p99 float64
}

func summarise(all []time.Duration) summary {
	if len(all) == 0 {
		return summary{}
	}
	slices.Sort(all)
	at := func(q float64) float64 {
		return all[min(int(q*float64(len(all))), len(all)-1)].Seconds() * 1e3
	}
	return summary{len(all), at(0.50), at(0.99)}
}

// folderBytes sums the files in a folder.
func folderBytes(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, e := range entries {
		info, err := e.Info()
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}
