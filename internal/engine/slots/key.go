package slots

// Key names a task queue. Workers take attempts of one queue and one task type.
//
// Suspects wait in queues of their own. They need a slot like all others, and in a process only as many of them have
// one as their group allows.
type Key struct {
	Queue, Type string
	Group       int // the number of suspects that may run at once; 0 if they are not suspects
}

// Ordinary returns the key of the queue whose slots the attempts need.
func (k Key) Ordinary() Key {
	k.Group = 0
	return k
}
