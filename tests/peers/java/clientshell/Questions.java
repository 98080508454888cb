import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.MQAdmin;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What every client can ask the brokers. */
final class Questions {
    private Questions() {
    }

    static Object queues(JSONObject args) throws Exception {
        Object client = Clients.client(args);
        String topic = args.getString("topic");
        if (client instanceof DefaultMQProducer) {
            return Forms.described(((DefaultMQProducer) client).fetchPublishMessageQueues(topic));
        }
        if (client instanceof DefaultLitePullConsumer) {
            return Forms.described(((DefaultLitePullConsumer) client).fetchMessageQueues(topic));
        }
        return Forms.described(((DefaultMQPullConsumer) client).fetchSubscribeMessageQueues(topic));
    }

    static Object offsets(JSONObject args) throws Exception {
        MQAdmin client = Clients.client(args);
        MessageQueue queue = Forms.queue(args.getJSONArray("queue"));
        Map<String, Object> map = new TreeMap<>();
        map.put("min", client.minOffset(queue));
        map.put("max", client.maxOffset(queue));
        map.put("earliest", client.earliestMsgStoreTime(queue));
        if (args.containsKey("time")) {
            map.put("search", client.searchOffset(queue, args.getLongValue("time")));
        }
        return map;
    }

    static Object createTopic(JSONObject args) throws Exception {
        MQAdmin client = Clients.client(args);
        client.createTopic("TBW102", args.getString("topic"), args.getIntValue("queues"), Map.of());
        return null;
    }

    static Object view(JSONObject args) throws Exception {
        MQAdmin client = Clients.client(args);
        MessageExt message = client.viewMessage(args.getString("topic"), args.getString("message"));
        return message == null ? null : Forms.described(message);
    }

    static Object query(JSONObject args) throws Exception {
        MQAdmin client = Clients.client(args);
        List<Object> messages = new ArrayList<>();
        client.queryMessage(args.getString("topic"), args.getString("key"), args.getIntValue("max"),
            args.getLongValue("begin"), args.getLongValue("end"))
            .getMessageList().forEach(message -> messages.add(Forms.described(message)));
        return messages;
    }
}
