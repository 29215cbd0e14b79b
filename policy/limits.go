package policy

// PerAttempt reports whether the limit's clock starts again with every attempt, so that another attempt may follow
// its expiry.
func (k LimitKind) PerAttempt() bool {
	switch k {
	case LimitScheduleToStart, LimitStartToClose, LimitHeartbeat, LimitInactivity:
		return true
	default:
		return false
	}
}

// RetriesByDefault reports whether an attempt that the limit ended may be followed by another where the limit does
// not say. An attempt that no worker took is not: another one would wait in the same queue.
func (k LimitKind) RetriesByDefault() bool {
	return k.PerAttempt() && k != LimitScheduleToStart
}

// StepLimits are the kinds that [Limits] holds, outermost first.
var StepLimits = []LimitKind{
	LimitScheduleToClose, LimitDeadline, LimitScheduleToStart, LimitStartToClose, LimitHeartbeat, LimitInactivity,
	LimitWait,
}

// place is where the limit of a kind is kept; nil for the limits that are not a step's.
func (l *Limits) place(kind LimitKind) **Limit {
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

// Get returns the limit of a kind, or nil where there is none or it was removed.
func (l *Limits) Get(kind LimitKind) *Limit {
	place := l.place(kind)
	if place == nil || *place == nil || (*place).Removed {
		return nil
	}
	return *place
}

// Removed reports whether the limit of a kind is one that takes an inherited one away.
func (l *Limits) Removed(kind LimitKind) bool {
	place := l.place(kind)
	return place != nil && *place != nil && (*place).Removed
}

// Set puts a limit in its place; the kinds that are not a step's are left out. A nil limit clears the place.
func (l *Limits) Set(kind LimitKind, limit *Limit) {
	if place := l.place(kind); place != nil {
		*place = limit
	}
}
