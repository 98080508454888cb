import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumers, and what they have been given. */
final class PushConsumers {
    /** What each consumer has been given, in the order in which its listener saw it. */
    static final Map<String, List<Map<String, Object>>> inboxes = new ConcurrentHashMap<>();
    static final Map<MessageQueue, String> inListener = new ConcurrentHashMap<>();
    static final Object arrival = new Object();

    private PushConsumers() {
    }

    static Object startPush(JSONObject args) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.getString("group"));
        Clients.configured(consumer, args);
        for (String topic : args.getJSONObject("topics").keySet()) {
            consumer.subscribe(topic, args.getJSONObject("topics").getString(topic));
        }
        if (args.containsKey("strategy")) {
            consumer.setAllocateMessageQueueStrategy((AllocateMessageQueueStrategy) Class.forName(
                "org.apache.rocketmq.client.consumer.rebalance." + args.getString("strategy"))
                .getDeclaredConstructor().newInstance());
        }
        Listener listener = new Listener(args);
        if (args.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                listener.takes(messages, context.getMessageQueue())
                    ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(args.getIntValue("delayLevel"));
                return listener.takes(messages, null)
                    ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        Clients.clients.put(args.getString("name"), consumer);
        consumer.start();
        if (args.containsKey("refuse")) {
            awaitRetryQueue(consumer);
        }
        return null;
    }

    /** The group's first heartbeat makes its retry topic; a consumer would notice it with its next look around. */
    static void awaitRetryQueue(DefaultMQPushConsumer consumer) throws InterruptedException {
        MQClientInstance instance = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        String topic = "%RETRY%" + consumer.getConsumerGroup();
        while (consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .noneMatch(queue -> queue.getTopic().equals(topic))) {
            instance.updateTopicRouteInfoFromNameServer(topic);
            instance.rebalanceImmediately();
            Thread.sleep(20);
        }
    }

    /** Keeps what it is given, and refuses the messages the test wants refused. */
    static class Listener {
        final List<Map<String, Object>> inbox = new ArrayList<>();
        final String name;
        final String refusedPrefix;
        final int refusedTimes;
        final int holdMs;

        Listener(JSONObject args) {
            name = args.getString("name");
            refusedPrefix = args.getString("refuse");
            refusedTimes = args.containsKey("refuseTimes") ? args.getIntValue("refuseTimes") : Integer.MAX_VALUE;
            holdMs = args.getIntValue("holdMs");
            inboxes.put(name, inbox);
        }

        /** `exclusive`: the queue that nobody else in this JVM may be handling meanwhile. */
        boolean takes(List<MessageExt> messages, MessageQueue exclusive) {
            String other = exclusive == null ? null : inListener.putIfAbsent(exclusive, name);
            boolean taken = true;
            List<Map<String, Object>> maps = new ArrayList<>();
            synchronized (arrival) {
                for (MessageExt message : messages) {
                    boolean isTaken = refusedPrefix == null || message.getReconsumeTimes() >= refusedTimes
                        || !new String(message.getBody(), StandardCharsets.UTF_8).startsWith(refusedPrefix);
                    Map<String, Object> map = Forms.described(message);
                    map.put("taken", isTaken);
                    map.put("together", messages.size());
                    map.put("overlaps", other);
                    map.put("begunNs", System.nanoTime());
                    maps.add(map);
                    inbox.add(map);
                    taken &= isTaken;
                }
                arrival.notifyAll();
            }
            if (holdMs > 0) {
                try {
                    Thread.sleep(holdMs);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            synchronized (arrival) {
                maps.forEach(map -> map.put("endedNs", System.nanoTime()));
            }
            if (exclusive != null && other == null) {
                inListener.remove(exclusive);
            }
            return taken;
        }
    }

    /** Waits until the consumers together have been given `count` different bodies; then all that each has. */
    static Object received(JSONObject args) throws Exception {
        List<String> names = args.getJSONArray("names").toJavaList(String.class);
        long deadline = System.currentTimeMillis() + args.getLongValue("timeoutMs");
        synchronized (arrival) {
            while (true) {
                Set<Object> seen = new HashSet<>();
                boolean perDelivery = args.getBooleanValue("deliveries");
                for (String name : names) {
                    for (Map<String, Object> message : inboxes.get(name)) {
                        seen.add(perDelivery ? message : message.get("body"));
                    }
                }
                long left = deadline - System.currentTimeMillis();
                if (seen.size() >= args.getIntValue("count") || left <= 0) {
                    break;
                }
                arrival.wait(left);
            }
            Map<String, Object> all = new TreeMap<>();
            for (String name : names) {
                List<Map<String, Object>> copies = new ArrayList<>();
                inboxes.get(name).forEach(map -> copies.add(new TreeMap<>(map)));
                all.put(name, copies);
            }
            return all;
        }
    }

    static Object assigned(JSONObject args) throws Exception {
        Object client = Clients.client(args);
        if (client instanceof DefaultLitePullConsumer) {
            return Forms.described(((DefaultLitePullConsumer) client).assignment());
        }
        return Forms.described(((DefaultMQPushConsumer) client).getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet());
    }

    /** Tells the broker how far the consumer has come, as it does by itself every few seconds. */
    static Object persist(JSONObject args) {
        Clients.<DefaultMQPushConsumer>client(args).getDefaultMQPushConsumerImpl().persistConsumerOffset();
        return null;
    }

    static Object unsubscribe(JSONObject args) {
        Clients.<DefaultMQPushConsumer>client(args).unsubscribe(args.getString("topic"));
        return null;
    }
}
