package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	kjson "sigs.k8s.io/json"
)

// withoutContent returns an error with the reason of err and the position in a t, which quotes nothing of the encoded
// object. Errors of libraries and of t's methods quote values and member names, which may be secret.
func withoutContent(err error, t reflect.Type) error {
	var wrong *json.UnmarshalTypeError
	var token *jsontext.SyntacticError
	var number *strconv.NumError
	malformed, offset := kjson.SyntaxErrorOffset(err)
	switch {
	case err == nil || err == errDecodedTooLarge || err == io.ErrUnexpectedEOF:
		return err
	case errors.As(err, &wrong):
		value, _, _ := strings.Cut(wrong.Value, " ") // "number 7"
		text := fmt.Sprintf("JSON %s does not fit Go type %.100v", value, wrong.Type)
		if wrong.Field != "" { // a path of struct fields, without map keys
			text += fmt.Sprintf(" at .%.200s", wrong.Field)
		}
		return errors.New(text)
	case malformed:
		return fmt.Errorf("malformed JSON after offset %d%s", offset, reason(err))
	case errors.As(err, &token):
		return fmt.Errorf("malformed JSON after offset %d%s", token.ByteOffset, reason(token.Err))
	case errors.As(err, &number):
		return fmt.Errorf("JSON number%s", reason(number.Err))
	// from generated code, which names fields and wire types but quotes nothing
	case strings.HasPrefix(err.Error(), "proto: "):
		return err
	}
	return fmt.Errorf("the Go type %v rejects the input%s", t, reason(err))
}

// reasons are prefixes of error texts. They quote nothing.
var reasons = []string{
	"invalid character", "invalid escape sequence", "invalid surrogate pair", "invalid UTF-8", "illegal character", "illegal base64 data",
	"unexpected EOF", "unexpected end of JSON input", "object member name must be a string", "missing value after object name",
	"value out of range", "invalid syntax", "too few array elements", "too many array elements", "duplicate object member name",
	"json: invalid use of ,string struct tag", "json: invalid number literal", "json: cannot set embedded pointer to unexported struct",
}

// reason returns ": " and the part of err's text that is known to quote nothing, or "" if there is none.
func reason(err error) string {
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		err = number.Err
	}
	if err != nil {
		if deep := "exceeded max depth"; strings.HasSuffix(err.Error(), deep) { // the text before it quotes a character
			return ": " + deep
		}
		for _, known := range reasons {
			if strings.HasPrefix(err.Error(), known) {
				return ": " + known
			}
		}
	}
	return ""
}
