package config

// Secret is a connection URL, which may hold a password. It prints masked
// however it is printed or marshalled; Reveal returns it as it is. The zero
// value is no URL.
type Secret string

// Reveal returns the URL, password included.
func (s Secret) Reveal() string { return string(s) }

// String returns the URL with its password masked.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	masked, err := mask(string(s))
	if err != nil {
		return masking
	}
	return masked
}

// GoString returns String.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Password is a password alone. It prints as xxxxx however it is printed or
// marshalled; Reveal returns it as it is. The zero value is no password.
type Password string

// Reveal returns the password.
func (p Password) Reveal() string { return string(p) }

// String returns xxxxx, or nothing for no password.
func (p Password) String() string {
	if p == "" {
		return ""
	}
	return masking
}

// GoString returns String.
func (p Password) GoString() string { return p.String() }

// MarshalText returns String.
func (p Password) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
