package client

// Drain takes every token of the client's budget.
func (c *Client) Drain() {
	for c.budget.take() {
	}
}

// Take takes a token of the client's budget.
func (c *Client) Take() bool { return c.budget.take() }

// Unanswered is unanswered.
func Unanswered(err error) bool { return unanswered(err) }
