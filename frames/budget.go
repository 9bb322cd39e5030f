package frames

// Budget bounds how many tracks do C work (decode, encode) at once, process-wide.
type Budget struct{ slots int }

// NewBudget makes a budget of n slots; n < 1 means one for each CPU.
func NewBudget(n int) *Budget { return &Budget{slots: n} }
