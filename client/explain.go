package client

import (
	"context"
	"net/http"

	"github.com/plimsoll-project/plimsoll/api"
)

// WhatIf says how many of a class would be admitted now, and what stops the next one. It claims
// nothing. Needs the role operator.
func (c *Client) WhatIf(ctx context.Context, q api.WhatIfRequest) (*api.WhatIf, error) {
	return send[api.WhatIf](ctx, c, http.MethodPost, "/v1/whatif", q)
}
