package policy

// PerAttempt reports whether the limit's clock starts again with every attempt. Only then can another attempt follow
// its expiry.
func (k LimitKind) PerAttempt() bool {
	switch k {
	case LimitScheduleToStart, LimitStartToClose, LimitHeartbeat, LimitInactivity:
		return true
	default:
		return false
	}
}

// RetriesByDefault reports whether another attempt may follow one that the limit ended, if the limit does not set it.
// It may not after scheduleToStart: no worker took the attempt, and the next one would wait in the same queue.
func (k LimitKind) RetriesByDefault() bool {
	return k.PerAttempt() && k != LimitScheduleToStart
}

// StepLimits are the kinds that [Limits] holds, outermost first.
var StepLimits = []LimitKind{
	LimitScheduleToClose, LimitDeadline, LimitScheduleToStart, LimitStartToClose, LimitHeartbeat, LimitInactivity,
	LimitWait,
}

// field returns the field that holds the limit of a kind, or nil for a limit that a step does not have.
func (l *Limits) field(kind LimitKind) **Limit {
	switch kind {
	case LimitScheduleToStart:
		return &l.ScheduleToStart
	case LimitStartToClose:
		return &l.StartToClose
	case LimitScheduleToClose:
		return &l.ScheduleToClose
	case LimitDeadline:
		return &l.Deadline
	case LimitHeartbeat:
		return &l.Heartbeat
	case LimitInactivity:
		return &l.Inactivity
	case LimitWait:
		return &l.Wait
	default:
		return nil
	}
}

// Get returns the limit of a kind, or nil if there is none or it was removed.
func (l *Limits) Get(kind LimitKind) *Limit {
	field := l.field(kind)
	if field == nil || *field == nil || (*field).Removed {
		return nil
	}
	return *field
}

// Removed reports whether the limit of a kind is "none", which removes an inherited limit.
func (l *Limits) Removed(kind LimitKind) bool {
	field := l.field(kind)
	return field != nil && *field != nil && (*field).Removed
}

// Set sets the limit of a kind; nil means none. It ignores kinds that a step does not have.
func (l *Limits) Set(kind LimitKind, limit *Limit) {
	if field := l.field(kind); field != nil {
		*field = limit
	}
}
