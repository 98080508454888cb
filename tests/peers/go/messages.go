package main

import (
	"hash/crc32"
	"strings"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const longestBodyShown = 256

// messageSpec describes a message to send. A body may be repeated, so that a large one is a short line.
type messageSpec struct {
	Body        string            `json:"body"`
	Repeat      int               `json:"repeat"`
	Tag         string            `json:"tag"`
	Keys        []string          `json:"keys"`
	ShardingKey string            `json:"sharding_key"`
	DelayLevel  int               `json:"delay_level"`
	Properties  map[string]string `json:"properties"`
	Broker      string            `json:"broker"`
	Queue       int               `json:"queue"`
}

func (spec *messageSpec) message(topic string) *primitive.Message {
	body := spec.Body
	if spec.Repeat > 0 {
		body = strings.Repeat(body, spec.Repeat)
	}
	message := primitive.NewMessage(topic, []byte(body))
	for name, value := range spec.Properties {
		message.WithProperty(name, value)
	}
	if spec.Tag != "" {
		message.WithTag(spec.Tag)
	}
	if len(spec.Keys) > 0 {
		message.WithKeys(spec.Keys)
	}
	if spec.ShardingKey != "" {
		message.WithShardingKey(spec.ShardingKey)
	}
	if spec.DelayLevel > 0 {
		message.WithDelayTimeLevel(spec.DelayLevel)
	}
	if spec.Broker != "" {
		message.Queue = &primitive.MessageQueue{Topic: topic, BrokerName: spec.Broker, QueueId: spec.Queue}
	}
	return message
}

// received is a message as the client hands it to a program.
type received struct {
	Consumer       string            `json:"consumer,omitempty"`
	Topic          string            `json:"topic"`
	Body           string            `json:"body"`
	Size           int               `json:"size"`
	CRC            uint32            `json:"crc"`
	Queue          int               `json:"queue"`
	Offset         int64             `json:"offset"`
	MessageID      string            `json:"message_id"`
	OffsetID       string            `json:"offset_id"`
	Tag            string            `json:"tag"`
	Properties     map[string]string `json:"properties"`
	ReconsumeTimes int32             `json:"reconsume_times"`
	SystemFlag     int32             `json:"system_flag"`
	BornMs         int64             `json:"born_ms"`
	StoredMs       int64             `json:"stored_ms"`
	StoreHost      string            `json:"store_host"`
}

func describe(consumer string, message *primitive.MessageExt) received {
	body := message.Body
	if len(body) > longestBodyShown {
		body = body[:longestBodyShown]
	}
	return received{
		Consumer:       consumer,
		Topic:          message.Topic,
		Body:           string(body),
		Size:           len(message.Body),
		CRC:            crc32.ChecksumIEEE(message.Body),
		Queue:          message.Queue.QueueId,
		Offset:         message.QueueOffset,
		MessageID:      message.MsgId,
		OffsetID:       message.OffsetMsgId,
		Tag:            message.GetTags(),
		Properties:     message.GetProperties(),
		ReconsumeTimes: message.ReconsumeTimes,
		SystemFlag:     message.SysFlag,
		BornMs:         message.BornTimestamp,
		StoredMs:       message.StoreTimestamp,
		StoreHost:      message.StoreHost,
	}
}
