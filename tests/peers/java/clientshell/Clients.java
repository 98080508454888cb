import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.ClientConfig;

/** The clients that the test has started, by the names it gave them. */
final class Clients {
    static final Map<String, Object> clients = new ConcurrentHashMap<>();

    private Clients() {
    }

    /** Calls setName(value) for every setting, with the value converted to what the setter takes. */
    static <T extends ClientConfig> T configured(T client, JSONObject args) throws Exception {
        client.setInstanceName(args.getString("name"));
        client.setNamesrvAddr(args.getString("namesrv"));
        client.setPollNameServerInterval(1000); // a new topic's route is asked for soon
        client.setHeartbeatBrokerInterval(5000); // one lost on a busy machine is made good soon
        client.setMqClientApiTimeout(10_000);
        JSONObject settings = args.getJSONObject("settings");
        if (settings != null) {
            for (String key : settings.keySet()) {
                set(client, "set" + Character.toUpperCase(key.charAt(0)) + key.substring(1), settings, key);
            }
        }
        return client;
    }

    static void set(Object client, String setter, JSONObject settings, String key) throws Exception {
        for (Method method : client.getClass().getMethods()) {
            if (method.getName().equals(setter) && method.getParameterCount() == 1) {
                method.invoke(client, settings.getObject(key, method.getParameterTypes()[0]));
                return;
            }
        }
        throw new IllegalArgumentException("no setting " + key);
    }

    @SuppressWarnings("unchecked")
    static <T> T client(JSONObject args) {
        Object client = clients.get(args.getString("name"));
        if (client == null) {
            throw new IllegalArgumentException("no client " + args.getString("name"));
        }
        return (T) client;
    }

    /** Shuts clients down, all at once. Their event threads sleep for 3 s between looks at the stop flag: wake them. */
    static Object stop(JSONObject args) throws Exception {
        List<Thread> stopping = new ArrayList<>();
        for (Object name : args.getJSONArray("names")) {
            Object client = clients.remove(name);
            if (!args.getBooleanValue("keepsInboxes")) {
                PushConsumers.inboxes.remove(name);
            }
            if (client != null) {
                Thread thread = new Thread(() -> shutdown(client));
                thread.start();
                stopping.add(thread);
            }
        }
        for (Thread thread : stopping) {
            while (thread.isAlive()) {
                Thread[] threads = new Thread[Thread.activeCount() + 64];
                int count = Thread.enumerate(threads);
                for (int i = 0; i < count; i++) {
                    if (threads[i].getName().startsWith("NettyEventExecutor")) {
                        threads[i].interrupt();
                    }
                }
                thread.join(20);
            }
        }
        return stopping.size();
    }

    static void shutdown(Object client) {
        try {
            client.getClass().getMethod("shutdown").invoke(client);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
