"""The demo pair of leapdecode: a target, a draft, and problems that they can solve."""
