package bench

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// sample measures the floor: how long the disk takes to make 4 KiB at the end of a file durable.
func (s *session) sample() (err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "floor"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if gone := os.Remove(f.Name()); err == nil {
			err = gone
		}
	}()
	block := make([]byte, 4096)
	const cold = 10 // the file's first syncs write its folder as well
	n := pick(s, 400, 200)
	for i := range n + cold {
		from := time.Now()
		if _, err := f.Write(block); err != nil {
			return err
		}
		if err := datasync(f); err != nil {
			return err
		}
		if i >= cold {
			s.floor = append(s.floor, time.Since(from))
		}
	}
	return nil
}

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
