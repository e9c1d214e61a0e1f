package statement

import "fmt"

// MaxStatements bounds the statements of one write. A row with other members
// than the row before it needs one more.
const MaxStatements = 2000

// maxArgs is how many parameters PostgreSQL's protocol can count.
const maxArgs = 65535

// ErrTooMany is a *Fault for a write of more than MaxStatements.
func ErrTooMany() error {
	return &Fault{Code: MixedRows, Detail: fmt.Sprintf("it takes more than %d statements, one for each row with other members than the row before: "+
		"put rows with the same members side by side, or give all of them all members", MaxStatements)}
}

// counted returns a *Fault if PostgreSQL can't be sent the statements.
func counted(statements ...Statement) error {
	for _, s := range statements {
		if len(s.Args) > maxArgs {
			return &Fault{Code: TooLarge, Detail: fmt.Sprintf("it takes %d parameters, and PostgreSQL counts to %d: give it fewer filters and columns", len(s.Args), maxArgs)}
		}
	}
	return nil
}
