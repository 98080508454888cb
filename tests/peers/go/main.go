// Runs commands of the Go client, read from standard input, one JSON object a line:
//
//	{"id": 7, "do": "send", "client": "p", ...}
//
// and answers each with one line, "@@answer {...}", that carries the same id and either "ok" or "error". What push
// consumers receive comes in between, in lines that begin with "@@message".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

const maxLine = 16 << 20

// command is what a line may hold; every operation takes the fields it needs.
type command struct {
	ID     int    `json:"id"`
	Do     string `json:"do"`
	Client string `json:"client"`

	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Namespace string `json:"namespace"`

	How      string        `json:"how"` // sync, async, oneway
	Batch    bool          `json:"batch"`
	Messages []messageSpec `json:"messages"`
	Selector string        `json:"selector"` // hash, manual; round robin if empty
	Create   string        `json:"create"`   // the topic that an unknown topic inherits from; TBW102 if empty

	Expression  string `json:"expression"`
	Broadcast   bool   `json:"broadcast"`
	Orderly     bool   `json:"orderly"`
	Begin       string `json:"begin"`        // last, or a time as yyyyMMddHHmmss; first if empty
	FailTimes   int32  `json:"fail_times"`   // how often the listener refuses each message
	RetryLevel  int    `json:"retry_level"`  // delay level of a refused message
	MaxAttempts int32  `json:"max_attempts"` // then the dead-letter topic

	Broker    string `json:"broker"` // name for a queue, address for a topic
	Queue     int    `json:"queue"`
	Queues    int    `json:"queues"`
	Offset    int64  `json:"offset"`
	Count     int    `json:"count"`
	TimeoutMs int    `json:"timeout_ms"`
}

type answer struct {
	ID    int         `json:"id"`
	OK    interface{} `json:"ok"`
	Error string      `json:"error,omitempty"`
}

// shell holds the clients by the names the commands give them.
type shell struct {
	nameServers []string
	clients     map[string]interface{}
}

type operation func(*shell, *command) (interface{}, error)

var operations = map[string]operation{
	"producer":     startProducer,
	"send":         send,
	"push":         startPushConsumer,
	"pull":         startPullConsumer,
	"pull_from":    pullFrom,
	"poll":         poll,
	"offset":       currentOffset,
	"commit":       commit,
	"shutdown":     shutdown,
	"create_topic": createTopic,
	"delete_topic": deleteTopic,
	"topics":       topics,
	"groups":       groups,
	"write_queues": writeQueues,
}

var printing sync.Mutex

func emit(kind string, value interface{}) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf("@@%s %s\n", kind, text)
}

// run turns a panic of the client into an error, so that one bad answer does not end the shell.
func run(s *shell, c *command) (result interface{}, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	operate, known := operations[c.Do]
	if !known {
		return nil, fmt.Errorf("no such operation: %q", c.Do)
	}
	return operate(s, c)
}

func (c *command) timeout() time.Duration {
	return time.Duration(c.TimeoutMs) * time.Millisecond
}

func main() {
	s := &shell{nameServers: os.Args[1:], clients: map[string]interface{}{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	fmt.Println("@@ready")
	for lines.Scan() {
		c := &command{}
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			emit("answer", answer{ID: c.ID, Error: err.Error()})
			continue
		}
		result, err := run(s, c)
		if err != nil {
			emit("answer", answer{ID: c.ID, Error: err.Error()})
		} else {
			emit("answer", answer{ID: c.ID, OK: result})
		}
	}
}
