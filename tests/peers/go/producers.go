package main

import (
	"context"
	"fmt"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// sent is what a producer is told about a message that was kept.
type sent struct {
	Status    string `json:"status"`
	MessageID string `json:"message_id"`
	OffsetID  string `json:"offset_id"`
	Broker    string `json:"broker"`
	Queue     int    `json:"queue"`
	Offset    int64  `json:"offset"`
	Error     string `json:"error,omitempty"`
}

var statuses = map[primitive.SendStatus]string{
	primitive.SendOK:                "SEND_OK",
	primitive.SendFlushDiskTimeout:  "FLUSH_DISK_TIMEOUT",
	primitive.SendFlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	primitive.SendSlaveNotAvailable: "SLAVE_NOT_AVAILABLE",
}

func startProducer(s *shell, c *command) (interface{}, error) {
	options := []producer.Option{
		producer.WithNameServer(s.nameServers),
		producer.WithGroupName(c.Group),
		producer.WithInstanceName(c.Client),
		producer.WithRetry(2),
	}
	if c.Namespace != "" {
		options = append(options, producer.WithNamespace(c.Namespace))
	}
	if c.Create != "" {
		options = append(options, producer.WithCreateTopicKey(c.Create))
	}
	switch c.Selector {
	case "hash":
		options = append(options, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	case "manual":
		options = append(options, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	}
	started, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	s.clients[c.Client] = started
	return nil, started.Start()
}

// send answers with one result a message, or one for a whole batch.
func send(s *shell, c *command) (interface{}, error) {
	client, known := s.clients[c.Client].(rocketmq.Producer)
	if !known {
		return nil, fmt.Errorf("no such producer: %q", c.Client)
	}
	var groups [][]*primitive.Message
	for i := range c.Messages {
		message := c.Messages[i].message(c.Topic)
		if c.Batch && i > 0 {
			groups[0] = append(groups[0], message)
		} else {
			groups = append(groups, []*primitive.Message{message})
		}
	}
	switch c.How {
	case "async":
		return sendAsync(client, groups)
	case "oneway":
		for _, group := range groups {
			if err := client.SendOneWay(context.Background(), group...); err != nil {
				return nil, err
			}
		}
		return nil, nil
	default:
		return sendSync(client, groups)
	}
}

func sendSync(client rocketmq.Producer, groups [][]*primitive.Message) (interface{}, error) {
	var results []sent
	for _, group := range groups {
		result, err := client.SendSync(context.Background(), group...)
		if err != nil {
			return nil, err
		}
		results = append(results, describeSent(result, nil))
	}
	return results, nil
}

func sendAsync(client rocketmq.Producer, groups [][]*primitive.Message) (interface{}, error) {
	results := make([]sent, len(groups))
	var waiting sync.WaitGroup
	for i := range groups {
		i := i
		var once sync.Once // the client calls twice after a time-out
		waiting.Add(1)
		err := client.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			once.Do(func() {
				results[i] = describeSent(result, err)
				waiting.Done()
			})
		}, groups[i]...)
		if err != nil {
			return nil, err
		}
	}
	waiting.Wait()
	return results, nil
}

func describeSent(result *primitive.SendResult, err error) sent {
	if err != nil {
		return sent{Error: err.Error()}
	}
	return sent{
		Status:    statuses[result.Status],
		MessageID: result.MsgID,
		OffsetID:  result.OffsetMsgID,
		Broker:    result.MessageQueue.BrokerName,
		Queue:     result.MessageQueue.QueueId,
		Offset:    result.QueueOffset,
	}
}
