package worker

func play(string) {}
