package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl/internal/journal"
)

const (
	defaultSchema     = "pawl"
	defaultPartitions = 8
	defaultLease      = 3 * time.Second
	defaultTimeout    = 30 * time.Second
	defaultConns      = 10

	shortest = 100 * time.Millisecond // the least lease and timeout
)

// schemaName matches names that mean the same with and without quotes.
var schemaName = regexp.MustCompile("^[a-z_][a-z0-9_]{0,62}$")

// place is a parsed address.
type place struct {
	pool       *pgxpool.Config
	name       string // the name for people: it has no password
	schema     string
	partitions int           // the number for a new schema; an existing one must have as many. 0: it does not matter
	lease      time.Duration // the time until an owner without a sign of life is replaced
	timeout    time.Duration // the time for one statement
}

// parse reads an address. Its own parameters are taken out, and the rest is for pgx.
func parse(dsn string) (p place, err error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Opaque != "" || u.Host+u.Path+u.RawQuery == "" ||
		u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return place{}, errors.New("journal: the database's address is not understood: " +
			"write it like postgres://user:password@host:5432/database?schema=pawl")
	}
	q := u.Query()
	take := func(key string) string {
		value := q.Get(key)
		q.Del(key)
		return value
	}
	p = place{schema: take("schema"), lease: defaultLease, timeout: defaultTimeout}
	if path := take("search_path"); p.schema == "" {
		first, _, _ := strings.Cut(path, ",")
		p.schema = strings.Trim(strings.TrimSpace(first), `"`)
	}
	if p.schema == "" {
		p.schema = defaultSchema
	}
	if !schemaName.MatchString(p.schema) {
		return place{}, fmt.Errorf("journal: schema=%s: write a name of at most 63 lower-case letters, digits and"+
			" _", p.schema)
	}
	if n := take("partitions"); n != "" {
		p.partitions, err = strconv.Atoi(n)
		if err != nil || p.partitions < 1 || p.partitions > journal.MostPartitions {
			return place{}, fmt.Errorf("journal: partitions=%s: write a number from 1 to %d", n, journal.MostPartitions)
		}
	}
	for _, d := range []struct {
		key   string
		value *time.Duration
	}{{"lease", &p.lease}, {"statement_timeout", &p.timeout}} {
		if text := take(d.key); text != "" {
			if *d.value, err = span(text); err != nil || *d.value < shortest {
				return place{}, fmt.Errorf("journal: %s=%s: write a duration of at least %s, such as 30s", d.key, text,
					shortest)
			}
		}
	}
	if !q.Has("pool_max_conns") {
		q.Set("pool_max_conns", strconv.Itoa(defaultConns))
	}
	u.RawQuery = q.Encode()
	if p.pool, err = pgxpool.ParseConfig(u.String()); err != nil {
		return place{}, fmt.Errorf("journal: correct the database's address: %w", err) // pgx leaves the password out
	}
	c := p.pool.ConnConfig
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "pawl"
	}
	p.name = nameOf(&c.Config, p.schema)
	return p, nil
}

// span reads a duration. A number alone is milliseconds, as PostgreSQL reads it.
func span(text string) (time.Duration, error) {
	if ms, err := strconv.Atoi(text); err == nil {
		return time.Duration(ms) * time.Millisecond, nil
	}
	return time.ParseDuration(text)
}

func nameOf(c *pgconn.Config, schema string) string {
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("postgres://%s/%s?schema=%s", host, c.Database, schema)
}

// Key returns a name for files that belong to one database: another host, port, database or schema has another one.
// Who logs in, and how, makes no difference.
func Key(dsn string) (string, error) {
	p, err := parse(dsn)
	if err != nil {
		return "", err
	}
	c := &p.pool.ConnConfig.Config
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %q", c.Host, c.Port, c.Database, p.schema))
	return hex.EncodeToString(sum[:8]), nil
}

// in returns a statement's text with the name of the schema in it.
func (p *place) in(text string) string {
	text = strings.ReplaceAll(text, "{generation}", generationText)
	return strings.ReplaceAll(text, "{schema}", `"`+p.schema+`"`)
}
