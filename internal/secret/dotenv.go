package secret

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/joho/godotenv"
)

// maxDotenv bounds a file of variables, in bytes.
const maxDotenv = 1 << 20

// ReadFiles reads files of variables, NAME=value a line. Of a variable that is in several, the first one counts. Paths
// count from the store's folder.
func (s *Store) ReadFiles(paths []string) (map[string]string, error) {
	out := map[string]string{}
	for _, path := range paths {
		text, err := readWhole(s.path(path))
		if err != nil {
			return nil, fmt.Errorf("the variables in %s (dotenv; its path counts from the folder in which Pawl "+
				"runs): %w", path, err)
		}
		values, err := godotenv.UnmarshalBytes(text)
		if err != nil {
			return nil, mistakeIn(path, text, err)
		}
		for name, value := range values {
			if _, known := out[name]; !known {
				out[name] = value
			}
		}
	}
	return out, nil
}

// readWhole reads a file, which may be a named pipe: some keepers of passwords offer variables that way.
func readWhole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDotenv+1))
	if err == nil && len(text) > maxDotenv {
		err = fmt.Errorf("it is larger than %d bytes", maxDotenv)
	}
	return text, err
}

// mistakeIn returns the error of a file of variables that cannot be read. It names the line, and nothing that stands in
// the file but the name of the variable: the parser's own error quotes the rest of the file, with its passwords.
func mistakeIn(path string, text []byte, err error) error {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	at, what := len(text), "it is not understood"
	_, near, found := strings.Cut(err.Error(), " in variable name near ")
	rest, unquoted := strconv.Unquote(near)
	switch value, quoted := strings.CutPrefix(err.Error(), "unterminated quoted value "); {
	case found && unquoted == nil:
		at = max(0, len(text)-len(rest))
		what = "a line is NAME=value, and a name has letters, digits and _ only"
	case quoted:
		at = max(0, bytes.Index(text, []byte(value)))
		what = "the quote of the value does not end"
	}
	line := 1 + bytes.Count(text[:at], []byte("\n"))
	return fmt.Errorf("%s:%d (dotenv): %s", path, line, what)
}
