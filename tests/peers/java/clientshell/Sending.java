import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;

/** Producers. */
final class Sending {
    private Sending() {
    }

    static Object startProducer(JSONObject args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args.getString("group"));
        producer.setSendMsgTimeout(20_000);
        Clients.configured(producer, args).start();
        Clients.clients.put(args.getString("name"), producer);
        return null;
    }

    static Object send(JSONObject args) throws Exception {
        DefaultMQProducer producer = Clients.client(args);
        List<Message> messages = new ArrayList<>();
        for (Object message : args.getJSONArray("messages")) {
            messages.add(message(args.getString("topic"), (JSONObject) message));
        }
        List<Object> results = new ArrayList<>();
        switch (args.getString("how")) {
            case "batch":
                results.add(Forms.described(producer.send(messages)));
                return results;
            case "async":
                return sentAsync(producer, messages);
            default:
                for (int i = 0; i < messages.size(); i++) {
                    results.add(sendOne(producer, messages.get(i), args, args.getJSONArray("messages").getJSONObject(i)));
                }
                return results;
        }
    }

    static Object sendOne(DefaultMQProducer producer, Message message, JSONObject args, JSONObject form) throws Exception {
        switch (args.getString("how")) {
            case "oneway":
                producer.sendOneway(message);
                return null;
            case "ordered":
                return Forms.described(producer.send(message,
                    (queues, ignored, key) -> queues.get((Integer) key % queues.size()), form.getInteger("order")));
            case "hash":
                return Forms.described(producer.send(message, new SelectMessageQueueByHash(), form.getString("key")));
            case "queue":
                return Forms.described(producer.send(message, Forms.queue(args.getJSONArray("queue"))));
            default:
                return Forms.described(producer.send(message));
        }
    }

    static Object sentAsync(DefaultMQProducer producer, List<Message> messages) throws Exception {
        Object[] results = new Object[messages.size()];
        CountDownLatch answered = new CountDownLatch(messages.size());
        for (int i = 0; i < results.length; i++) {
            int index = i;
            producer.send(messages.get(i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    results[index] = Forms.described(result);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    results[index] = Map.of("error", Forms.described(e));
                    answered.countDown();
                }
            });
        }
        answered.await(60, TimeUnit.SECONDS);
        return results;
    }

    static Message message(String topic, JSONObject form) {
        Message message = new Message(topic, body(form));
        if (form.containsKey("tags")) {
            message.setTags(form.getString("tags"));
        }
        if (form.containsKey("keys")) {
            message.setKeys(form.getString("keys"));
        }
        if (form.containsKey("delay")) {
            message.setDelayTimeLevel(form.getIntValue("delay"));
        }
        if (form.containsKey("flag")) {
            message.setFlag(form.getIntValue("flag"));
        }
        if (form.containsKey("properties")) {
            form.getJSONObject("properties").forEach((key, value) -> message.putUserProperty(key, (String) value));
        }
        return message;
    }

    /** The text "body", repeated "times"; or "random" bytes, which do not compress. */
    static byte[] body(JSONObject form) {
        if (form.containsKey("random")) {
            byte[] bytes = new byte[form.getIntValue("random")];
            new Random(bytes.length).nextBytes(bytes);
            return bytes;
        }
        int times = form.containsKey("times") ? form.getIntValue("times") : 1;
        return form.getString("body").repeat(times).getBytes(StandardCharsets.UTF_8);
    }
}
