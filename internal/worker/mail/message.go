package mail

import (
	"bytes"
	"fmt"
	"mime"
	"mime/quotedprintable"
	netmail "net/mail"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/worker"
)

// message is the content of a mail in the form that a server takes.
type message struct {
	id   string
	from *netmail.Address
	to   []*netmail.Address
	text []byte
}

// maxSubject is how many bytes a subject may have; the rest is cut.
const maxSubject = 250

// message writes the message. Values cannot add headers: addresses are parsed and written again, and a subject that is
// not plain text is encoded, after its line breaks became blanks.
func (p *Payload) message(key string) (*message, error) {
	from, err := netmail.ParseAddress(p.From)
	if err != nil {
		return nil, fmt.Errorf("from, %q: %w", worker.Shorten(p.From, 100), err)
	}
	m := &message{from: from}
	if m.to, err = addresses(p.To); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(from.Address, "@")
	m.id = "<" + key + "@" + domain + ">"
	subject := worker.Shorten(strings.Join(strings.Fields(p.Subject), " "), maxSubject)
	to := make([]string, len(m.to))
	for i, one := range m.to {
		to[i] = one.String()
	}
	var b bytes.Buffer
	for _, header := range [][2]string{
		{"From", from.String()},
		{"To", strings.Join(to, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", time.Now().Format("Mon, 02 Jan 2006 15:04:05 -0700")},
		{"Message-ID", m.id},
		{"Auto-Submitted", "auto-generated"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", header[0], header[1])
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(worker.ValidText([]byte(p.Text)))) // a buffer takes everything
	_ = w.Close()
	m.text = b.Bytes()
	return m, nil
}
