package main

import (
	"context"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

const adminTimeout = 10 * time.Second

func withAdmin(s *shell, ask func(context.Context, admin.Admin) (interface{}, error)) (interface{}, error) {
	client, err := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(s.nameServers)))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return ask(ctx, client)
}

func createTopic(s *shell, c *command) (interface{}, error) {
	return withAdmin(s, func(ctx context.Context, client admin.Admin) (interface{}, error) {
		return nil, client.CreateTopic(ctx, admin.WithTopicCreate(c.Topic), admin.WithBrokerAddrCreate(c.Broker),
			admin.WithReadQueueNums(c.Queues), admin.WithWriteQueueNums(c.Queues))
	})
}

func deleteTopic(s *shell, c *command) (interface{}, error) {
	return withAdmin(s, func(ctx context.Context, client admin.Admin) (interface{}, error) {
		return nil, client.DeleteTopic(ctx, admin.WithTopicDelete(c.Topic), admin.WithBrokerAddrDelete(c.Broker))
	})
}

func topics(s *shell, c *command) (interface{}, error) {
	return withAdmin(s, func(ctx context.Context, client admin.Admin) (interface{}, error) {
		found, err := client.FetchAllTopicList(ctx)
		if err != nil {
			return nil, err
		}
		return found.TopicList, nil
	})
}

func groups(s *shell, c *command) (interface{}, error) {
	return withAdmin(s, func(ctx context.Context, client admin.Admin) (interface{}, error) {
		found, err := client.GetAllSubscriptionGroup(ctx, c.Broker, adminTimeout)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for name := range found.SubscriptionGroupTable {
			names = append(names, name)
		}
		return names, nil
	})
}

func writeQueues(s *shell, c *command) (interface{}, error) {
	return withAdmin(s, func(ctx context.Context, client admin.Admin) (interface{}, error) {
		found, err := client.FetchPublishMessageQueues(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		var numbers []int
		for _, queue := range found {
			numbers = append(numbers, queue.QueueId)
		}
		return numbers, nil
	})
}
