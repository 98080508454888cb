import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Java objects as JSON, and back. */
final class Forms {
    static final int SHORT_BODY = 200;

    private Forms() {
    }

    static MessageQueue queue(JSONArray form) {
        return new MessageQueue(form.getString(0), form.getString(1), form.getIntValue(2));
    }

    static List<MessageQueue> queuesOf(JSONArray forms) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object form : forms) {
            queues.add(queue((JSONArray) form));
        }
        return queues;
    }

    static Object described(Collection<MessageQueue> queues) {
        List<Object> forms = new ArrayList<>();
        queues.stream().sorted().forEach(queue ->
            forms.add(List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId())));
        return forms;
    }

    static Map<String, Object> described(SendResult result) {
        Map<String, Object> map = new TreeMap<>();
        map.put("status", result.getSendStatus().name());
        map.put("msgId", result.getMsgId());
        map.put("offsetMsgId", result.getOffsetMsgId());
        map.put("topic", result.getMessageQueue().getTopic());
        map.put("broker", result.getMessageQueue().getBrokerName());
        map.put("queue", result.getMessageQueue().getQueueId());
        map.put("offset", result.getQueueOffset());
        return map;
    }

    static Map<String, Object> described(MessageExt message) {
        Map<String, Object> map = new TreeMap<>();
        map.put("body", text(message.getBody()));
        map.put("topic", message.getTopic());
        map.put("tags", message.getTags());
        map.put("keys", message.getKeys());
        map.put("flag", message.getFlag());
        map.put("broker", message.getBrokerName());
        map.put("queue", message.getQueueId());
        map.put("offset", message.getQueueOffset());
        map.put("msgId", message.getMsgId());
        map.put("offsetMsgId",
            message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null);
        map.put("reconsumeTimes", message.getReconsumeTimes());
        map.put("sysFlag", message.getSysFlag());
        map.put("storeSize", message.getStoreSize());
        map.put("born", message.getBornTimestamp());
        map.put("stored", message.getStoreTimestamp());
        // A copy: a client that delivers the message again writes to its own.
        map.put("properties", new TreeMap<>(message.getProperties()));
        return map;
    }

    /** A short body itself, a long one by its size and digest. */
    static String text(byte[] body) {
        if (body.length <= SHORT_BODY) {
            return new String(body, StandardCharsets.UTF_8);
        }
        try {
            StringBuilder hex = new StringBuilder(body.length + " bytes, sha1 ");
            for (byte b : MessageDigest.getInstance("SHA-1").digest(body)) {
                hex.append(String.format("%02x", b));
            }
            return hex.toString();
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    static Map<String, Object> described(Throwable e) {
        Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
        Map<String, Object> map = new TreeMap<>();
        map.put("type", cause.getClass().getSimpleName());
        map.put("message", String.valueOf(cause.getMessage()));
        map.put("code", codeOf(cause));
        return map;
    }

    private static Integer codeOf(Throwable cause) {
        if (cause instanceof MQBrokerException) {
            return ((MQBrokerException) cause).getResponseCode();
        }
        return cause instanceof MQClientException ? (Integer) ((MQClientException) cause).getResponseCode() : null;
    }
}
