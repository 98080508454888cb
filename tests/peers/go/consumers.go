package main

import (
	"context"
	"fmt"
	"sync"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func consumerOptions(s *shell, c *command) []consumer.Option {
	options := []consumer.Option{
		consumer.WithNameServer(s.nameServers),
		consumer.WithGroupName(c.Group),
		consumer.WithInstance(c.Client),
		consumer.WithConsumerOrder(c.Orderly),
		consumer.WithPullBatchSize(32),
	}
	if c.Namespace != "" {
		options = append(options, consumer.WithNamespace(c.Namespace))
	}
	if c.Broadcast {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if c.MaxAttempts > 0 {
		options = append(options, consumer.WithMaxReconsumeTimes(c.MaxAttempts))
	}
	switch c.Begin {
	case "":
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	case "last":
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset))
	default:
		options = append(options, consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp),
			consumer.WithConsumeTimestamp(c.Begin))
	}
	return options
}

func selector(c *command) consumer.MessageSelector {
	expression := c.Expression
	if expression == "" {
		expression = "*"
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
}

func startPushConsumer(s *shell, c *command) (interface{}, error) {
	client, err := rocketmq.NewPushConsumer(consumerOptions(s, c)...)
	if err != nil {
		return nil, err
	}
	if err := client.Subscribe(c.Topic, selector(c), listener(c)); err != nil {
		return nil, err
	}
	s.clients[c.Client] = client
	return nil, client.Start()
}

// listener tells of every message, and refuses each as often as the command says.
func listener(c *command) func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	refused := map[string]int32{}
	var guard sync.Mutex
	return func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		guard.Lock()
		defer guard.Unlock()
		result := consumer.ConsumeSuccess
		for _, message := range messages {
			emit("message", describe(c.Client, message))
			if refused[message.MsgId] < c.FailTimes {
				refused[message.MsgId]++
				result = consumer.ConsumeRetryLater
				if c.Orderly {
					result = consumer.SuspendCurrentQueueAMoment
				}
			}
		}
		if concurrently, known := primitive.GetConcurrentlyCtx(ctx); known && c.RetryLevel > 0 {
			concurrently.DelayLevelWhenNextConsume = c.RetryLevel
		}
		return result, nil
	}
}

func startPullConsumer(s *shell, c *command) (interface{}, error) {
	client, err := rocketmq.NewPullConsumer(consumerOptions(s, c)...)
	if err != nil {
		return nil, err
	}
	if err := client.Subscribe(c.Topic, selector(c)); err != nil {
		return nil, err
	}
	s.clients[c.Client] = client
	return nil, client.Start()
}

func pullConsumer(s *shell, c *command) (rocketmq.PullConsumer, *primitive.MessageQueue, error) {
	client, known := s.clients[c.Client].(rocketmq.PullConsumer)
	if !known {
		return nil, nil, fmt.Errorf("no such pull consumer: %q", c.Client)
	}
	return client, &primitive.MessageQueue{Topic: c.Topic, BrokerName: c.Broker, QueueId: c.Queue}, nil
}

type pulled struct {
	Status   string     `json:"status"`
	Next     int64      `json:"next"`
	Min      int64      `json:"min"`
	Max      int64      `json:"max"`
	Messages []received `json:"messages"`
}

var pullStatuses = map[primitive.PullStatus]string{
	primitive.PullFound:         "FOUND",
	primitive.PullNoNewMsg:      "NO_NEW_MSG",
	primitive.PullNoMsgMatched:  "NO_MATCHED_MSG",
	primitive.PullOffsetIllegal: "OFFSET_ILLEGAL",
	primitive.PullBrokerTimeout: "TIMEOUT",
}

// pullFrom asks for one queue's messages from an offset on, in one request.
func pullFrom(s *shell, c *command) (interface{}, error) {
	client, queue, err := pullConsumer(s, c)
	if err != nil {
		return nil, err
	}
	result, err := client.PullFrom(context.Background(), queue, c.Offset, c.Count)
	if err != nil {
		return nil, err
	}
	answer := pulled{
		Status: pullStatuses[result.Status],
		Next:   result.NextBeginOffset,
		Min:    result.MinOffset,
		Max:    result.MaxOffset,
	}
	for _, message := range result.GetMessageExts() {
		answer.Messages = append(answer.Messages, describe("", message))
	}
	return answer, nil
}

// poll takes what the consumer has fetched ahead for the queues assigned to it, and acknowledges it.
func poll(s *shell, c *command) (interface{}, error) {
	client, _, err := pullConsumer(s, c)
	if err != nil {
		return nil, err
	}
	request, err := client.Poll(context.Background(), c.timeout())
	if err == consumer.ErrNoNewMsg {
		return []received{}, nil
	}
	if err != nil {
		return nil, err
	}
	var messages []received
	for _, message := range request.GetMsgList() {
		messages = append(messages, describe("", message))
	}
	client.ACK(context.Background(), request, consumer.ConsumeSuccess)
	return messages, nil
}

func currentOffset(s *shell, c *command) (interface{}, error) {
	client, queue, err := pullConsumer(s, c)
	if err != nil {
		return nil, err
	}
	return client.CurrentOffset(queue)
}

func commit(s *shell, c *command) (interface{}, error) {
	client, queue, err := pullConsumer(s, c)
	if err != nil {
		return nil, err
	}
	if err := client.UpdateOffset(queue, c.Offset); err != nil {
		return nil, err
	}
	return nil, client.PersistOffset(context.Background(), c.Topic)
}

func shutdown(s *shell, c *command) (interface{}, error) {
	client, known := s.clients[c.Client].(interface{ Shutdown() error })
	if !known {
		return nil, fmt.Errorf("no such client: %q", c.Client)
	}
	delete(s.clients, c.Client)
	return nil, client.Shutdown()
}
