// Command image makes the image of a Dockerfile, without a daemon and without root: its last stage, which copies files
// that were made before. It is written as an archive that docker load and podman load take, and, if asked, as a folder
// with its files.
//
//	go run . -file ../../docs/operations/Dockerfile -from /pawl=../../pawl -out pawl.tar
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	file := flag.String("file", "Dockerfile", "the Dockerfile")
	out := flag.String("out", "", "archive to write")
	folder := flag.String("folder", "", "folder to write the image's files into, and config.json beside it")
	from := map[string]string{}
	const usage = "file of an earlier stage, as PATH=FILE; a folder that is empty needs none; repeatable"
	flag.Func("from", usage, func(s string) error {
		at, local, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("write it as PATH=FILE")
		}
		from[at] = local
		return nil
	})
	flag.Parse()
	if err := run(*file, *out, *folder, from); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(file, out, folder string, from map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s, err := read(string(text), from)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(s.files.Bytes())), nil
	})
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Config = runtime.GOARCH, "linux", s.config
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	if out != "" {
		if err := tarball.WriteToFile(out, name.MustParseReference("pawl:latest"), img); err != nil {
			return err
		}
	}
	if folder == "" {
		return nil
	}
	return unpack(img, folder)
}

// stage is the last stage of a Dockerfile.
type stage struct {
	config v1.Config
	files  bytes.Buffer // as a tar archive
	tar    *tar.Writer
}

// read reads the last stage. An unknown instruction is an error: the image would not be the one that is described.
func read(text string, from map[string]string) (*stage, error) {
	s := &stage{config: v1.Config{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}}}
	s.tar = tar.NewWriter(&s.files)
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	last := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "FROM ") {
			last = i
		}
	}
	if lines[last] != "FROM scratch" {
		return nil, fmt.Errorf("the last stage begins with %q, and not with FROM scratch", lines[last])
	}
	for i, line := range lines[last+1:] {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || strings.HasPrefix(word, "#") {
			continue
		}
		if err := s.take(word, rest, from); err != nil {
			return nil, fmt.Errorf("line %d: %w", last+i+2, err)
		}
	}
	return s, s.tar.Close()
}

// take carries out one instruction.
func (s *stage) take(word, rest string, from map[string]string) error {
	switch word {
	case "COPY":
		return s.copy(strings.Fields(rest), from)
	case "ENV":
		s.config.Env = append(s.config.Env, rest)
	case "USER":
		s.config.User = rest
	case "VOLUME":
		s.config.Volumes[rest] = struct{}{}
	case "EXPOSE":
		s.config.ExposedPorts[rest+"/tcp"] = struct{}{}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &s.config.Cmd)
	default:
		return fmt.Errorf("%s is not known here", word)
	}
	return nil
}

// copy adds a file or a folder of an earlier stage.
func (s *stage) copy(words []string, from map[string]string) error {
	h := &tar.Header{Mode: 0o755, Typeflag: tar.TypeReg}
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		key, value, _ := strings.Cut(words[0], "=")
		switch key {
		case "--from":
		case "--chown":
			id, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			h.Uid, h.Gid = id, id
		default:
			return fmt.Errorf("%s is not known here", key)
		}
		words = words[1:]
	}
	if len(words) != 2 {
		return errors.New("COPY has one source and one target here")
	}
	local, ok := from[words[0]]
	h.Name = strings.TrimPrefix(words[1], "/")
	for dir := path.Dir(h.Name); dir != "."; dir = path.Dir(dir) {
		if err := s.tar.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			return err
		}
	}
	if !ok {
		h.Name, h.Typeflag = h.Name+"/", tar.TypeDir
		return s.tar.WriteHeader(h)
	}
	content, err := os.ReadFile(local)
	if err != nil {
		return err
	}
	h.Size = int64(len(content))
	return errors.Join(s.tar.WriteHeader(h), write(s.tar, content))
}

func write(w io.Writer, content []byte) error {
	_, err := w.Write(content)
	return err
}

// unpack writes the files of an image into a folder, with their owners if that is allowed, and its configuration.
func unpack(img v1.Image, folder string) error {
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	text, err := json.Marshal(config.Config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Clean(folder)+".json", text, 0o644); err != nil {
		return err
	}
	files := mutate.Extract(img)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		at := filepath.Join(folder, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = file(at, r)
		}
		if err != nil {
			return err
		}
		if err := os.Lchown(at, h.Uid, h.Gid); err != nil && os.Geteuid() == 0 {
			return err
		}
	}
}

func file(at string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
