"""Tests of the two services on one account: a real Plimsoll, and the fake provider beside them."""
