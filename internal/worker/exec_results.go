package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/core"
	"github.com/pawl-dev/pawl/internal/secret"
)

// resultsSize bounds the file $PAWL_OUTPUT, in bytes.
const resultsSize = 1 << 20

// resultFile is the file $PAWL_OUTPUT of one attempt. The process makes it when it writes its first result, since few
// write any.
type resultFile struct {
	path    string
	details string // the file with the details of the last heartbeat; empty: there is none

	redactor   *secret.Redactor
	ownFailure *ownFailure // the last failure that the process reported in the file
}

// largestVariable bounds the details of a heartbeat that a process gets as a variable. Linux takes 128 KiB.
const largestVariable = 64 << 10

// keep writes details that are too large for a variable into a file beside the results.
func (r *resultFile) keep(details []byte) error {
	if len(details) <= largestVariable {
		return nil
	}
	r.details = r.path + ".heartbeat"
	return os.WriteFile(r.details, details, 0o600)
}

// drop removes that file.
func (r *resultFile) drop() {
	if r.details != "" {
		_ = os.Remove(r.details)
	}
}

// resultFile names the file: next to the attempt's log, or in a folder for temporary files if there are no logs.
func (e *Exec) resultFile(tok core.Token, step string, redactor *secret.Redactor) (*resultFile, error) {
	if e.cfg.LogDir != "" {
		path, err := filepath.Abs(strings.TrimSuffix(LogPath(e.cfg.LogDir, tok, step), ".log") + ".out")
		if err == nil && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			return &resultFile{path: path, redactor: redactor}, nil
		}
	}
	dir, err := e.results.open()
	if err != nil {
		return nil, err
	}
	name := tok.Run.String() + "." + filepath.Base(LogPath("", tok, step))
	return &resultFile{path: filepath.Join(dir, name), redactor: redactor}, nil
}

func (r *resultFile) remove() { _ = os.Remove(r.path) }

// resultFolder is a folder for result files that nobody else may write to. It is made when it is needed.
type resultFolder struct {
	mu   sync.Mutex
	path string
	seen time.Time // when it was looked at
}

// folderSeen is how long the folder counts as there.
const folderSeen = 100 * time.Millisecond

// open returns the folder's path. It makes a new folder if the last one is gone: systems remove what is old from the
// folder for temporary files. It looks for it now and then only.
func (f *resultFolder) open() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.path != "" {
		if now.Sub(f.seen) < folderSeen {
			return f.path, nil
		}
		f.seen = now
		if _, err := os.Stat(f.path); err == nil {
			return f.path, nil
		}
	}
	path, err := os.MkdirTemp("", "pawl-output-*")
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err == nil { // a process may run in another folder
		f.path, f.seen = path, now
	}
	return path, err
}

// remove removes the folder. The next open makes another one.
func (f *resultFolder) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return nil
	}
	path := f.path
	f.path = ""
	return os.RemoveAll(path)
}

// read returns the results that the process wrote, and removes the file. There are none if the process did not make the
// file, or removed it.
func (r *resultFile) read() (map[string]any, error) {
	info, err := os.Stat(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	defer r.remove()
	if err == nil && !info.Mode().IsRegular() { // opening a named pipe would wait for somebody who writes to it
		return nil, errors.New("$PAWL_OUTPUT is no longer a file; write lines to it instead of replacing it")
	}
	f, err := openAgain(r.path)
	if err != nil {
		return nil, fmt.Errorf("$PAWL_OUTPUT cannot be read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, resultsSize+1))
	if err != nil {
		return nil, fmt.Errorf("$PAWL_OUTPUT cannot be read: %w", err)
	}
	if len(data) > resultsSize {
		const advice = "write large results to a file of your own and give its path"
		return nil, fmt.Errorf("$PAWL_OUTPUT is larger than %d bytes; %s", resultsSize, advice)
	}
	values, own, err := parseResults(redactResults(r.redactor, data))
	r.ownFailure = own
	return values, err
}

// redactResults takes secrets out of results. Lines are taken together, before they are cut into names and values: a
// secret may have an equals sign or several lines. A line that is a JSON object stays one, also where a number of it is
// a secret.
func redactResults(r *secret.Redactor, data []byte) []byte {
	if r == nil {
		return data
	}
	var out, others []byte
	for line := range bytes.Lines(data) {
		object := bytes.TrimRight(line, "\r\n")
		if !bytes.HasPrefix(object, []byte("{")) || !json.Valid(object) {
			others = append(others, line...)
			continue
		}
		out = append(append(out, r.Bytes(others)...), r.JSON(object)...)
		out, others = append(out, line[len(object):]...), nil
	}
	return append(out, r.Bytes(others)...)
}

// parseResults reads lines name=value, name<<END … END for a text of several lines, and JSON objects. If a name is
// given twice, the later value counts. An object with the key pawl is a failure that the process reports.
func parseResults(data []byte) (values map[string]any, own *ownFailure, err error) {
	values = map[string]any{}
	lines := bytes.Split(data, []byte("\n"))
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(ValidText(lines[i]), "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if strings.HasPrefix(line, "{") {
			failure, err := addObject(values, []byte(line))
			if err != nil {
				return nil, own, fmt.Errorf("$PAWL_OUTPUT, line %d: %w", i+1, err)
			}
			if failure != nil {
				own = failure
			}
			continue
		}
		equals, here := strings.Index(line, "="), strings.Index(line, "<<")
		switch {
		case here > 0 && (equals < 0 || here < equals):
			name, end := line[:here], line[here+2:]
			first := i + 1
			var body []string
			for i++; i < len(lines) && strings.TrimSuffix(ValidText(lines[i]), "\r") != end; i++ {
				body = append(body, ValidText(lines[i]))
			}
			if i == len(lines) || end == "" {
				const problem = "$PAWL_OUTPUT, line %d: the text of %q has no end; finish it with a line %q"
				return nil, own, fmt.Errorf(problem, first, name, end)
			}
			values[strings.TrimSpace(name)] = strings.Join(body, "\n")
		case equals > 0:
			values[strings.TrimSpace(line[:equals])] = line[equals+1:]
		default:
			return nil, own, fmt.Errorf("$PAWL_OUTPUT, line %d: %q is not a result; write name=value, name<<END and "+
				"lines up to END, or a JSON object", i+1, Shorten(line, 60))
		}
	}
	return values, own, nil
}

// addObject adds the keys of a JSON object to the results, or returns the failure that the object is.
func addObject(values map[string]any, line []byte) (*ownFailure, error) {
	switch heartbeat, failure := engineMessage(line); {
	case heartbeat != nil:
		return nil, errors.New("a heartbeat is a line of stdout, and needs results: lines")
	case failure != nil:
		return failure, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil {
		return nil, fmt.Errorf("%q is no JSON object: %w", Shorten(string(line), 60), err)
	}
	for name, value := range object {
		values[name] = value
	}
	return nil, nil
}
