package vet

import (
	"go/ast"
	"go/types"
	"maps"
	"path"
	"regexp"
	"strings"
)

// A ban is a function that a body must not call.
type ban struct{ check, why, fix string }

// The reason why a function must not be called in a body, and what to do.
var (
	readsClock = "gives another instant when the body is called again"

	timer = ban{
		clock, "waits by a clock that the run does not record",
		"use pawl.Sleep, in a branch of pawl.Go where it runs beside other work",
	}
	timeoutOf = ban{
		clock, "ends by a clock that the run does not record",
		"give the step pawl.Timeout, an event wait pawl.Within, or use pawl.WithCancel",
	}
	environment = ban{
		inOut, "may give something else when the body is called again",
		"read it in a step (pawl.Step), or pass it in the workflow's input",
	}
	device = ban{
		inOut, "is done again when the body is called again",
		"do it in a step (pawl.Step, pawl.Do)",
	}
	output = ban{
		inOut, "is written again when the body is called again", "use pawl.Logger(ctx), which says it once, or a step",
	}
	goroutine = ban{
		parallel, "starts a goroutine whose order the run does not record",
		"use pawl.Go or pawl.Map, and the Context that the branch gets",
	}
	wait = ban{
		parallel, "waits for goroutines in an order that the run does not record",
		"begin the work with pawl.Go, pawl.Map or pawl.Async, and wait for the futures",
	}
	lock = ban{
		parallel, "lets chance decide which branch goes first",
		"return values from the branches of pawl.Go and pawl.Map instead of sharing variables",
	}
)

// bans are the functions that must not be called, by their full names.
var bans = map[string]ban{
	"time.Now":   {clock, readsClock, "use pawl.Now(ctx)"},
	"time.Since": {clock, readsClock, "use pawl.Now(ctx).Sub"},
	"time.Until": {clock, readsClock, "use t.Sub(pawl.Now(ctx))"},
	"time.Sleep": {clock, "is not recorded, and the run cannot leave the memory meanwhile", "use pawl.Sleep"},
}

// startsGoroutine are the functions that run a function which they get in a goroutine, or some day.
var startsGoroutine = map[string]bool{
	"time.AfterFunc": true, "context.AfterFunc": true, "(*sync.WaitGroup).Go": true,
	"(*golang.org/x/sync/errgroup.Group).Go": true, "(*golang.org/x/sync/errgroup.Group).TryGo": true,
}

func init() {
	add := func(b ban, prefix, names string) {
		for name := range strings.FieldsSeq(names) {
			bans[prefix+name] = b
		}
	}
	add(timer, "time.", "After Tick NewTimer NewTicker")
	add(timeoutOf, "context.", "WithTimeout WithTimeoutCause WithDeadline WithDeadlineCause")
	for name := range maps.Keys(startsGoroutine) {
		bans[name] = goroutine
	}
	add(wait, "(*sync.", "WaitGroup).Wait Cond).Wait")
	add(wait, "(*golang.org/x/sync/", "errgroup.Group).Wait semaphore.Weighted).Acquire")
	add(lock, "(*sync.", "Mutex).Lock Mutex).TryLock RWMutex).Lock RWMutex).TryLock RWMutex).RLock RWMutex).TryRLock")
	add(lock, "(sync.", "Locker).Lock")

	add(environment, "os.", "Getenv LookupEnv Environ ExpandEnv Hostname Getpid Getppid Getwd Executable UserHomeDir "+
		"UserCacheDir UserConfigDir TempDir")
	add(environment, "runtime.", "NumCPU NumGoroutine GOMAXPROCS")
	add(output, "fmt.", "Print Printf Println")
	add(output, "log.", "Print Printf Println")
	add(device, "os.", "ReadFile WriteFile Open OpenFile Create CreateTemp ReadDir Stat Lstat Readlink Mkdir MkdirAll "+
		"MkdirTemp Remove RemoveAll Rename Link Symlink Truncate Chmod Chown Chtimes CopyFS StartProcess OpenRoot")
	add(device, "io/ioutil.", "ReadFile WriteFile ReadDir TempFile TempDir")
	add(device, "path/filepath.", "Glob Walk WalkDir EvalSymlinks")
	add(device, "(*os/exec.Cmd).", "Run Start Output CombinedOutput")
	add(device, "net.", "Dial DialTimeout DialTCP DialUDP DialUnix Listen ListenPacket LookupHost LookupIP LookupAddr "+
		"LookupCNAME LookupMX LookupNS LookupPort LookupSRV LookupTXT Interfaces InterfaceAddrs")
	add(device, "(*net.", "Dialer).Dial Dialer).DialContext ListenConfig).Listen Resolver).LookupHost "+
		"Resolver).LookupIP Resolver).LookupIPAddr Resolver).LookupAddr")
	add(device, "crypto/tls.", "Dial DialWithDialer")
	add(device, "net/http.", "Get Head Post PostForm ListenAndServe ListenAndServeTLS Serve")
	add(device, "(*net/http.", "Client).Do Client).Get Client).Head Client).Post Client).PostForm "+
		"Transport).RoundTrip")
	add(device, "(net/http.RoundTripper).", "RoundTrip")
	add(device, "net/smtp.", "SendMail Dial")
	for _, t := range []string{"DB", "Conn", "Tx", "Stmt"} {
		add(device, "(*database/sql."+t+").", "Query QueryContext QueryRow QueryRowContext Exec ExecContext Prepare "+
			"PrepareContext Begin BeginTx Ping PingContext Commit")
	}
}

var (
	randomNumber = ban{random, "gives something else when the body is called again", "use pawl.Random(ctx)"}
	randomSecret = ban{
		random, "gives something else when the body is called again",
		"use pawl.Random(ctx), or make a secret in a step (pawl.Step)",
	}
	randomID = ban{random, "gives another id when the body is called again", "use pawl.UUID(ctx)"}

	// idPackage is the last part of the path of packages that make ids, and idMaker what does so in them.
	idPackage = regexp.MustCompile(`uuid|ulid|nanoid|cuid|^k?suid$|^ksuid$|^xid$`)
	idMaker   = regexp.MustCompile(`^(New|Make|Must|Generate)`)
	version   = regexp.MustCompile(`^v[0-9]+$`)
)

// banOf returns why a body must not call the function.
func banOf(f *types.Func) (ban, bool) {
	if f == nil || f.Pkg() == nil {
		return ban{}, false
	}
	if b, found := bans[f.FullName()]; found {
		return b, true
	}
	if f.Signature().Recv() != nil {
		return ban{}, false
	}
	switch p := pathOf(f.Pkg()); {
	case (p == "math/rand" || p == "math/rand/v2") && !strings.HasPrefix(f.Name(), "New"):
		return randomNumber, true // the results of New give the same numbers where the seed is the same
	case p == "crypto/rand":
		return randomSecret, true
	case makesID(p, f):
		return randomID, true
	}
	return ban{}, false
}

// makesID reports whether the function makes an id from nothing: one that is made from a name is the same each time.
func makesID(importPath string, f *types.Func) bool {
	if version.MatchString(path.Base(importPath)) {
		importPath = path.Dir(importPath)
	}
	params := f.Signature().Params().Len()
	return idPackage.MatchString(path.Base(importPath)) && idMaker.MatchString(f.Name()) &&
		(params == 0 || params == 1 && f.Signature().Variadic())
}

// checkCall reports a call that a body must not make. It reports whether it was one.
func (c *checker) checkCall(call *ast.CallExpr) bool {
	f := c.callee(call)
	b, found := banOf(f)
	if found {
		c.reportBan(call, display(f), b)
	}
	return found
}

func (c *checker) reportBan(n ast.Node, what string, b ban) {
	c.report(n, b.check, what+" in a workflow's body "+b.why+": "+b.fix)
}

// checkReader reports crypto/rand.Reader, which is a variable.
func (c *checker) checkReader(id *ast.Ident) {
	v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
	if ok && v.Name() == "Reader" && v.Pkg() != nil && pathOf(v.Pkg()) == "crypto/rand" {
		c.reportBan(id, "rand.Reader", randomSecret)
	}
}
