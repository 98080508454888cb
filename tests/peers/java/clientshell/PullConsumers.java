import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Lite pull consumers and the old pull consumer. */
final class PullConsumers {
    private PullConsumers() {
    }

    static Object startLite(JSONObject args) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.getString("group"));
        Clients.configured(consumer, args);
        JSONObject topics = args.getJSONObject("topics");
        if (topics != null) {
            for (String topic : topics.keySet()) {
                consumer.subscribe(topic, topics.getString(topic));
            }
        }
        consumer.start();
        if (args.containsKey("assign")) {
            consumer.assign(Forms.queuesOf(args.getJSONArray("assign")));
        }
        Clients.clients.put(args.getString("name"), consumer);
        return null;
    }

    static Object startPull(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.getString("group"));
        Clients.configured(consumer, args).start();
        Clients.clients.put(args.getString("name"), consumer);
        return null;
    }

    /** Polls until `count` messages have come. */
    static Object poll(JSONObject args) {
        DefaultLitePullConsumer consumer = Clients.client(args);
        long deadline = System.currentTimeMillis() + args.getLongValue("timeoutMs");
        List<Object> messages = new ArrayList<>();
        while (messages.size() < args.getIntValue("count") && System.currentTimeMillis() < deadline) {
            for (MessageExt message : consumer.poll(200)) {
                messages.add(Forms.described(message));
            }
        }
        return messages;
    }

    static Object seek(JSONObject args) throws Exception {
        DefaultLitePullConsumer consumer = Clients.client(args);
        MessageQueue queue = Forms.queue(args.getJSONArray("queue"));
        switch (args.getString("to")) {
            case "begin":
                consumer.seekToBegin(queue);
                break;
            case "end":
                consumer.seekToEnd(queue);
                break;
            default:
                consumer.seek(queue, args.getLongValue("to"));
        }
        return null;
    }

    static Object commit(JSONObject args) throws Exception {
        Object client = Clients.client(args);
        if (client instanceof DefaultLitePullConsumer) {
            ((DefaultLitePullConsumer) client).commit(new HashSet<>(Forms.queuesOf(args.getJSONArray("queues"))), true);
        } else {
            DefaultMQPullConsumer consumer = (DefaultMQPullConsumer) client;
            MessageQueue queue = Forms.queue(args.getJSONArray("queue"));
            consumer.updateConsumeOffset(queue, args.getLongValue("offset"));
            consumer.getOffsetStore().persist(queue);
        }
        return null;
    }

    static Object committed(JSONObject args) throws Exception {
        Object client = Clients.client(args);
        MessageQueue queue = Forms.queue(args.getJSONArray("queue"));
        if (client instanceof DefaultLitePullConsumer) {
            return ((DefaultLitePullConsumer) client).committed(queue);
        }
        return ((DefaultMQPullConsumer) client).getOffsetStore().readOffset(queue, ReadOffsetType.READ_FROM_STORE);
    }

    static Object pullFrom(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = Clients.client(args);
        MessageQueue queue = Forms.queue(args.getJSONArray("queue"));
        String expression = args.getString("expression");
        long offset = args.getLongValue("offset");
        PullResult result = args.getBooleanValue("wait")
            ? consumer.pullBlockIfNotFound(queue, expression, offset, 32)
            : consumer.pull(queue, expression, offset, 32, 10_000);
        Map<String, Object> map = new TreeMap<>();
        map.put("status", result.getPullStatus().name());
        map.put("next", result.getNextBeginOffset());
        map.put("min", result.getMinOffset());
        map.put("max", result.getMaxOffset());
        List<Object> messages = new ArrayList<>();
        if (result.getMsgFoundList() != null) {
            result.getMsgFoundList().forEach(message -> messages.add(Forms.described(message)));
        }
        map.put("messages", messages);
        return map;
    }

    /** Every message of a topic, from the least offset of each queue to the greatest: [body, queue, offset, keys]. */
    static Object drain(JSONObject args) throws Exception {
        DefaultMQPullConsumer consumer = Clients.client(args);
        List<Object> messages = new ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(args.getString("topic"))) {
            long offset = consumer.minOffset(queue);
            while (offset < consumer.maxOffset(queue)) {
                PullResult result = consumer.pull(queue, "*", offset, 32, 10_000);
                if (result.getMsgFoundList() != null) {
                    for (MessageExt message : result.getMsgFoundList()) {
                        messages.add(List.of(Forms.text(message.getBody()), message.getQueueId(), message.getQueueOffset(),
                            String.valueOf(message.getKeys()), message.getMsgId()));
                    }
                }
                offset = result.getNextBeginOffset();
            }
        }
        return messages;
    }
}
