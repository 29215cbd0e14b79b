package sqlite

func hold(string) {}
