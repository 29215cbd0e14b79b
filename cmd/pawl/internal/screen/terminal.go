package screen

import (
	"os"
	"os/signal"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
)

// Terminal is a terminal that a person watches and types on. While it is open, each key arrives at once and is not
// shown, and Ctrl-C arrives as a key instead of a signal. Close puts the terminal back as it was.
//
// Bubble Tea reads the keys, notices resizes, and sets and restores the terminal's modes on every system. It draws
// nothing: a Painter does.
type Terminal struct {
	program *tea.Program
	input   bool // keys are read
	keys    chan string
	resized chan struct{}
	ready   chan struct{} // closed once the terminal's modes are set
	closing chan struct{} // closed by Close: nobody takes keys any more
	ended   chan struct{} // closed once the modes are restored
	once    sync.Once
	err     error // why the program ended; read after ended is closed

	mu            sync.Mutex
	painter       *Painter
	width, height int
	resumed       chan struct{} // not nil after Ctrl-Z: nothing is drawn; closed once the process goes on
}

// OpenTerminal prepares a terminal. If in is nil, there are no keys, and Ctrl-C stays a signal.
func OpenTerminal(in, out *os.File, color bool) (*Terminal, error) {
	t := &Terminal{
		input: in != nil, keys: make(chan string, 16), resized: make(chan struct{}, 1), ready: make(chan struct{}),
		closing: make(chan struct{}), ended: make(chan struct{}), painter: NewPainter(out, color), width: 80,
		height: 24,
	}
	if w, h, err := term.GetSize(int(out.Fd())); err == nil {
		t.resize(w, h)
	}
	input := tea.WithInput(nil)
	if in != nil {
		input = tea.WithInput(in)
	}
	t.program = tea.NewProgram(listener{t}, input, tea.WithOutput(undrawn{out}), tea.WithoutSignalHandler(),
		tea.WithColorProfile(colorprofile.NoTTY), tea.WithFPS(1))
	go func() {
		defer close(t.ended)
		_, t.err = t.program.Run()
	}()
	select {
	case <-t.ready:
		go t.watchContinued()
		return t, nil
	case <-t.ended:
		return nil, t.err
	}
}

// undrawn is a terminal's file without what Bubble Tea writes. Among that are questions to the terminal, whose answers
// would arrive in the shell if a short run has ended by then.
type undrawn struct{ *os.File }

func (undrawn) Write(b []byte) (int, error) { return len(b), nil }

// Keys returns the channel of the keys pressed, by the names that Bubble Tea gives them: c, C, enter, esc, ctrl+c.
func (t *Terminal) Keys() <-chan string { return t.keys }

// Resized receives a value after the terminal's size has changed.
func (t *Terminal) Resized() <-chan struct{} { return t.resized }

// Listens reports whether keys are read, so that a question can be answered.
func (t *Terminal) Listens() bool {
	select {
	case <-t.ended: // the input has failed
		return false
	default:
		return t.input
	}
}

// Size returns the number of columns and lines.
func (t *Terminal) Size() (width, height int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.width, t.height
}

// Paint shows the lines instead of those shown before.
func (t *Terminal) Paint(lines []Line) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resumed != nil {
		return nil
	}
	return t.painter.Paint(lines, t.width)
}

// Close restores the terminal. It may be called more than once, by several goroutines, and without a terminal.
func (t *Terminal) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		close(t.closing)
		t.program.Quit()
		<-t.ended
		t.mu.Lock()
		defer t.mu.Unlock()
		_ = t.painter.End() // the terminal is gone where this fails
	})
}

// RestoreOnPanic restores the terminal before a panic ends the process; goroutines that run while the terminal is
// open defer it. Otherwise the terminal would no longer show typed text.
func (t *Terminal) RestoreOnPanic() {
	if p := recover(); p != nil {
		t.Close()
		panic(p)
	}
}

func (t *Terminal) resize(width, height int) {
	if width <= 0 || height <= 1 {
		return // some terminals do not know their size
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.width, t.height = width, height
	select {
	case t.resized <- struct{}{}:
	default: // there is one already
	}
}

// suspend shows the cursor, stops the process, and draws nothing until it goes on.
func (t *Terminal) suspend() tea.Cmd {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resumed != nil {
		return nil
	}
	t.resumed = make(chan struct{})
	_ = t.painter.End() // the terminal is gone where this fails
	go continueUntil(t.resumed)
	return tea.Suspend
}

// continueUntil continues the process again and again until it is resumed. A stopped process does not do this. But
// where no shell could continue it, in a container for example, the system does not stop it, and Bubble Tea would wait
// forever.
func continueUntil(resumed <-chan struct{}) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			continueProcess()
		case <-resumed:
			return
		}
	}
}

// goOn draws again after the process was stopped, below what the shell has written.
func (t *Terminal) goOn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resumed != nil {
		close(t.resumed)
		t.resumed = nil
	}
	t.painter.Forget()
}

// continued is sent after another process has stopped and continued this one.
type continued struct{}

// watchContinued notices that the process goes on after somebody else has stopped it, with kill -STOP for example. The
// shell has changed the terminal's modes meanwhile. After Ctrl-Z, Bubble Tea notices it.
func (t *Terminal) watchContinued() {
	signals := make(chan os.Signal, 1)
	notifyContinued(signals)
	defer signal.Stop(signals)
	for {
		select {
		case <-signals:
			t.mu.Lock()
			other := t.resumed == nil
			t.mu.Unlock()
			if other {
				t.program.Send(continued{})
			}
		case <-t.ended:
			return
		}
	}
}

// setModes sets the terminal's modes again.
func (t *Terminal) setModes() {
	if t.program.ReleaseTerminal() == nil {
		_ = t.program.RestoreTerminal() // then keys arrive only after Enter
	}
}

// listener passes on what Bubble Tea reports.
type listener struct{ t *Terminal }

// Init runs once the terminal's modes are set.
func (l listener) Init() tea.Cmd {
	close(l.t.ready)
	return nil
}

func (l listener) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		l.t.resize(msg.Width, msg.Height)
	case tea.SuspendMsg: // it comes here after the process was stopped and goes on
		l.t.goOn()
	case continued:
		l.t.setModes()
		l.t.goOn()
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+z" && canSuspend {
			return l, l.t.suspend()
		}
		select {
		case l.t.keys <- msg.String():
		case <-l.t.closing:
		}
	}
	return l, nil
}

// View returns nothing: the Painter draws.
func (l listener) View() tea.View { return tea.View{} }
